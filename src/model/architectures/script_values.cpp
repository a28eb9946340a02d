// SPDX-License-Identifier: Apache-2.0
#include "architectures/script_values.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <array>
#include <memory>
#include <new>

namespace trireme::model {
namespace {

namespace jit = torch::jit;

void look_at(jit::Block& block, ForwardTraits& traits);
std::string first_line(const std::string& text);

}  // namespace

// Loads to the CPU, not the meta device, since the parser compares constants of equal shapes.
jit::Module load_script(const std::filesystem::path& file) {
  const auto refuse = [&](const std::string& words) {
    throw InputError(concat(file.string(),
                            ": is not a module saved by torch.jit.save, or holds what LibTorch "
                            "cannot load: ",
                            first_line(words)));
  };
  try {
    return jit::load(file.string(), at::kCPU);
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const c10::Error& error) {
    refuse(error.what_without_backtrace());
  } catch (const std::exception& error) {
    refuse(error.what());
  }
  return {};
}

ForwardTraits traits_of_forward(const jit::Module& module) {
  const std::shared_ptr<jit::Graph> graph = module.get_method("forward").graph()->copy();
  jit::Inline(*graph);
  ForwardTraits traits;
  look_at(*graph->block(), traits);
  return traits;
}

bool is_batch_norm(const jit::Module& module) {
  return module.hasattr("running_mean");
}

std::vector<std::pair<std::string, at::Tensor>> tensor_attributes(const jit::Module& module) {
  std::vector<std::pair<std::string, at::Tensor>> found;
  const auto type = module.type();
  for (std::size_t i = 0; i < type->numAttributes(); ++i) {
    const c10::IValue value = module._ivalue()->getSlot(i);
    if (value.isTensor() && value.toTensor().defined() && !type->is_parameter(i) &&
        !type->is_buffer(i))
      found.emplace_back(type->getAttributeName(i), value.toTensor());
  }
  return found;
}

bool may_be_saved(const at::Tensor& value) {
  constexpr std::array kTypes{at::kFloat, at::kDouble, at::kBFloat16, at::kHalf,
                              at::kLong,  at::kInt,    at::kByte,     at::kBool};
  return value.layout() == at::kStrided && !value.is_quantized() && !value.is_nested() &&
         std::find(kTypes.begin(), kTypes.end(), value.scalar_type()) != kTypes.end();
}

std::string kind_text(const at::Tensor& value) {
  return concat(value.layout() == at::kStrided ? "" : "sparse ", value.scalar_type());
}

bool is_same(const at::Tensor& a, const at::Tensor& b) {
  return a.data_ptr() == b.data_ptr() && a.scalar_type() == b.scalar_type() &&
         a.sizes() == b.sizes() && a.strides() == b.strides();
}

bool share_bytes(const at::Tensor& a, const at::Tensor& b) {
  if (a.numel() == 0 || b.numel() == 0) return false;
  const auto end_of = [](const at::Tensor& value) {
    std::int64_t last = 0;
    for (std::int64_t i = 0; i < value.dim(); ++i) last += (value.size(i) - 1) * value.stride(i);
    return static_cast<const char*>(value.data_ptr()) + (last + 1) * value.itemsize();
  };
  const auto begin_of = [](const at::Tensor& value) {
    return static_cast<const char*>(value.data_ptr());
  };
  return begin_of(a) < end_of(b) && begin_of(b) < end_of(a);
}

namespace {

void look_at(jit::Block& block, ForwardTraits& traits) {
  for (jit::Node* const node : block.nodes()) {
    if (node->isNondeterministic()) traits.is_random = true;
    if (node->kind() == c10::prim::SetAttr) {
      const std::string& name = node->s(c10::attr::name);
      const auto owner = node->inputs().at(0)->type()->cast<c10::ClassType>();
      // Objects other than modules live only within the forward.
      if (owner && owner->is_module()) {
        if (owner->is_buffer(owner->getAttributeSlot(name)))
          traits.sets_buffers = true;
        else
          traits.sets_other = name;
      }
    }
    for (jit::Block* const inner : node->blocks()) look_at(*inner, traits);
  }
}

std::string first_line(const std::string& text) {
  for (const std::string& line : split(text, '\n'))
    if (line.find_first_not_of(" \t\r") != std::string::npos) return line;
  return text;
}

}  // namespace
}  // namespace trireme::model
