// Layers of another language: how a retape leaves their frames, and what becomes of their errors.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/model/foreign.h"

#include "trireme/core/error.h"
#include "trireme/model/taped.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <atomic>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace trireme::model {
namespace {

/// The exception of a language that must see its own in its frames.
struct Theirs : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Computes exp(exp(x)) in "frames" that only `Theirs` may pass.
class Foreign final : public Layer {
 public:
  Values forward(const Values& input, const Context&) override {
    const EarlyEndScope scope([] { throw Theirs("early end"); });
    try {
      return {frames(input.at(0))};
    } catch (const Theirs&) {
      throw EarlyEnd{};
    }
  }

  int early_ends = 0, other_ends = 0;

 private:
  at::Tensor frames(const at::Tensor& x) {
    try {
      return x.exp().exp();
    } catch (const Theirs&) {
      ++early_ends;
      throw;
    } catch (...) {
      ++other_ends;
      throw;
    }
  }
};

Context untrained() {
  return Context{};
}

TEST(ForeignLayer, IsLeftByARetapeThroughItsOwnException) {
  Foreign layer;
  const at::Tensor x = at::full({3}, 0.5);
  Tape whole = taped_forward(layer, {x}, untrained(), Precision::kFloat32, InputGradient::kNeeded);
  const Values expected = backward(std::move(whole), {at::ones({3})});

  Outlined outlined =
      outlined_forward(layer, {x}, untrained(), Precision::kFloat32, InputGradient::kNeeded);
  Tape again = retape(std::move(outlined.outline), layer, {x}, untrained(), Precision::kFloat32);

  EXPECT_EQ(layer.early_ends, 1);
  EXPECT_EQ(layer.other_ends, 0);
  EXPECT_TRUE(at::equal(backward(std::move(again), {at::ones({3})}).at(0), expected.at(0)));
}

TEST(EarlyEnd, IsItselfOutsideOfAScope) {
  {
    const EarlyEndScope scope([] { throw Theirs("early end"); });
  }
  EXPECT_THROW(end_early(), EarlyEnd);
}

/// exp(x) whose backward throws `Error`.
template <class Error>
class FailsBackwards final : public Layer {
 public:
  Values forward(const Values& input, const Context&) override {
    at::Tensor y = input.at(0).exp();
    if (y.requires_grad())
      y.register_hook([](const at::Tensor&) { throw Error("no such gradient"); });
    return {y};
  }
};

template <class Error>
void run_failing_backward() {
  FailsBackwards<Error> layer;
  Tape tape = taped_forward(layer, {at::zeros({2})}, untrained(), Precision::kFloat32,
                            InputGradient::kNeeded);
  backward(std::move(tape), {at::ones({2})});
}

void convert_theirs() {
  try {
    throw;
  } catch (const Theirs& error) {
    throw InputError(std::string("theirs: ") + error.what());
  } catch (...) {
  }
}

class ForeignBackward : public testing::Test {
 protected:
  void SetUp() override { expect_foreign_backwards(&language_); }
  void TearDown() override { expect_foreign_backwards(nullptr); }

 private:
  const ForeignBackwards language_{.convert_error = &convert_theirs};
};

TEST_F(ForeignBackward, HasErrorsOfTheLanguageConverted) {
  try {
    run_failing_backward<Theirs>();
    FAIL();
  } catch (const InputError& error) {
    EXPECT_STREQ(error.what(), "theirs: no such gradient");
  }
}

TEST_F(ForeignBackward, LeavesOtherErrorsAsTheyAre) {
  EXPECT_THROW(run_failing_backward<std::domain_error>(), std::domain_error);
}

/// exp(x) whose backward draws from the default generator, as a forward that is run again does.
class DrawsBackwards final : public Layer {
 public:
  Values forward(const Values& input, const Context&) override {
    at::Tensor y = input.at(0).exp();
    if (y.requires_grad()) y.register_hook([](const at::Tensor&) { return drawn(); });
    return {y};
  }
  static at::Tensor drawn() {
    at::manual_seed(5);
    std::vector<at::Tensor> draws;
    for (int i = 0; i < 40; ++i) draws.push_back(at::randn({2}));
    return draws.back();
  }
};

TEST_F(ForeignBackward, HasTheDefaultGeneratorForItself) {
  const at::Tensor expected = DrawsBackwards::drawn();
  std::atomic<int> wrong = 0;
  {
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < 2; ++rank)
      ranks.emplace_back([&] {
        DrawsBackwards layer;
        for (int i = 0; i < 30; ++i) {
          Tape tape = taped_forward(layer, {at::zeros({2})}, untrained(), Precision::kFloat32,
                                    InputGradient::kNeeded);
          wrong += at::equal(backward(std::move(tape), {at::ones({2})}).at(0), expected) ? 0 : 1;
        }
      });
  }
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace trireme::model
