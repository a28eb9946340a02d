// SPDX-License-Identifier: Apache-2.0
#include "scripts.h"

#include "trireme/core/text.h"
#include "trireme/model/chain.h"

#include <ATen/ATen.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>

#include <functional>

namespace trireme::runtime {
namespace {

constexpr std::int64_t kWidth = 32, kClasses = 10;

constexpr const char* kLayer = R"(
def forward(self, x, before):
    h = torch.linear(x, self.weight, self.bias)
    if self.training:
        self.mean.mul_(0.9).add_(0.1 * h.detach().mean(0))
    h = torch.dropout(torch.relu(h), 0.1, self.training)
    return torch.linear(h, self.weight) + before, torch.tanh(x)
)";
constexpr const char* kFirst = R"(
def forward(self, x):
    return torch.gelu(torch.linear(x, self.weight, self.bias)), x * 0.5
)";
constexpr const char* kLoss = R"(
def forward(self, x, before, target):
    return torch.cross_entropy_loss(torch.linear(x + before, self.weight, self.bias), target)
)";

void add_constants(torch::jit::Graph& graph, const std::vector<at::Tensor>& constants);
/// With what `change` makes of layers 0, 1 and 3.
config::TorchScriptSpec save_scripts(const std::filesystem::path& folder,
                                     const std::function<void(Script&)>& change);

}  // namespace

void save_script(const Script& script, const std::filesystem::path& file) {
  torch::jit::Module module("layer");
  module.register_attribute("training", c10::BoolType::get(), true);
  for (const auto& [name, value] : script.parameters)
    module.register_parameter(name, value.detach().clone().requires_grad_(!script.is_frozen),
                              false);
  for (const auto& [name, value] : script.buffers) module.register_buffer(name, value);
  module.define(script.code);
  add_constants(*module.get_method("forward").graph(), script.constants);
  module.save(file.string());
}

config::TorchScriptSpec save_scripts(const std::filesystem::path& folder) {
  return save_scripts(folder, [](Script&) {});
}

config::TorchScriptSpec save_frozen_scripts(const std::filesystem::path& folder) {
  return save_scripts(folder, [](Script& lower) { lower.is_frozen = true; });
}

config::TorchScriptSpec save_constant_scripts(const std::filesystem::path& folder) {
  return save_scripts(folder, [](Script& lower) {
    lower.buffers.insert(lower.buffers.begin(), lower.parameters.begin(), lower.parameters.end());
    lower.parameters.clear();
  });
}

namespace {

void add_constants(torch::jit::Graph& graph, const std::vector<at::Tensor>& constants) {
  const torch::jit::WithInsertPoint before_end(graph.return_node());
  for (const at::Tensor& constant : constants) {
    torch::jit::Value* const value = graph.insertConstant(constant);
    torch::jit::Value* const sum = graph.insert(c10::aten::add, {graph.outputs()[0], value});
    graph.return_node()->replaceInput(0, sum);
  }
}

config::TorchScriptSpec save_scripts(const std::filesystem::path& folder,
                                     const std::function<void(Script&)>& change) {
  config::TorchScriptSpec spec;
  spec.takes = "vectors";
  spec.inputs = kWidth;
  spec.classes = kClasses;
  spec.files = {(folder / "layer*.pt").string()};
  for (int i = 0; i < 5; ++i) {
    const std::int64_t out = i == 4 ? kClasses : kWidth;
    const at::Generator from = model::Seeds(1, i).of_layer();
    Script script{.code = i == 0   ? kFirst
                          : i == 4 ? kLoss
                                   : kLayer,
                  .parameters = {{"weight", at::empty({out, kWidth}).normal_(0, 0.2, from)},
                                 {"bias", at::zeros({out})}}};
    if (i > 0 && i < 4) script.buffers = {{"mean", at::zeros({kWidth})}};
    if (i == 0 || i == 1 || i == 3) change(script);
    save_script(script, folder / concat("layer", i, ".pt"));
  }
  return spec;
}

}  // namespace
}  // namespace trireme::runtime
