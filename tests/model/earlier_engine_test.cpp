// The autograd engine that was there before Trireme's, as Python's is where torch was imported.
// SPDX-License-Identifier: Apache-2.0
#include "run/saved_tensors.h"

#include "trireme/model/taped.h"

#include <gtest/gtest.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

namespace trireme::model {
namespace {

using torch::autograd::Engine;
using torch::autograd::SavedVariableHooks;

class KeepingHooks final : public SavedVariableHooks {
 public:
  void call_pack_hook(const at::Tensor& tensor) override { tensor_ = tensor.detach(); }
  at::Tensor call_unpack_hook() override { return tensor_; }

 private:
  at::Tensor tensor_;
};

class EarlierEngine final : public Engine {
 public:
  ~EarlierEngine() override { stop(); }
  static EarlierEngine& get() {
    static auto* const engine = new EarlierEngine;  // graphs may outlive static destruction
    return *engine;
  }

  torch::autograd::variable_list execute(const torch::autograd::edge_list& roots,
                                         const torch::autograd::variable_list& inputs,
                                         bool keep_graph, bool create_graph, bool accumulate_grad,
                                         const torch::autograd::edge_list& outputs) override {
    ++executed;
    return Engine::execute(roots, inputs, keep_graph, create_graph, accumulate_grad, outputs);
  }
  std::unique_ptr<SavedVariableHooks> get_default_saved_variable_hooks() override {
    return has_hooks ? std::make_unique<KeepingHooks>() : nullptr;
  }

  int executed = 0;
  bool has_hooks = false;
};

// All tests of this binary run on it.
const bool kInstalled = [] {
  torch::autograd::set_default_engine_stub([]() -> Engine& { return EarlierEngine::get(); });
  return true;
}();

class Exponential final : public Layer {
 public:
  Values forward(const Values& input, const Context&) override { return {input.at(0).exp()}; }
};

TEST(EarlierEngine, RunsBackwards) {
  ASSERT_TRUE(kInstalled);
  Exponential layer;
  Tape tape = taped_forward(layer, {at::zeros({2})}, Context{}, Precision::kFloat32,
                            InputGradient::kNeeded);
  { const NotingScope installs; }
  const int before = EarlierEngine::get().executed;

  const Values gradients = backward(std::move(tape), {at::ones({2})});

  EXPECT_EQ(EarlierEngine::get().executed, before + 1);
  EXPECT_TRUE(at::equal(gradients.at(0), at::ones({2})));
}

TEST(EarlierEngine, HasItsHooksAskedFirst) {
  const at::Tensor x = at::zeros({2}).requires_grad_();
  NotingScope scope;
  const at::Tensor noted = x.exp();
  EarlierEngine::get().has_hooks = true;
  const at::Tensor kept = x.exp();
  EarlierEngine::get().has_hooks = false;

  EXPECT_EQ(scope.take().size(), 1U);
  (noted + kept).sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), at::full({2}, 2.0)));
}

}  // namespace
}  // namespace trireme::model
