// Layers that were written in Python and saved by torch.jit: one module per layer.
//
// Modules run without the graph executor's own differentiation, whose nodes would keep tensors that
// no tape sees: every operator is recorded as if it had been called from here.
// SPDX-License-Identifier: Apache-2.0
#include "trireme/core/digest.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/io/file.h"
#include "trireme/io/pieces.h"
#include "trireme/model/chain.h"

#include <ATen/ATen.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/csrc/jit/ir/ir.h>
#include <torch/csrc/jit/passes/inliner.h>
#include <torch/csrc/jit/runtime/graph_executor.h>
#include <torch/csrc/jit/serialization/import.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <variant>
#include <vector>

namespace trireme::model {
namespace {

namespace fs = std::filesystem;
namespace jit = torch::jit;

class ScriptLayer final : public Layer {
 public:
  ScriptLayer(fs::path file, bool is_last);

  Values forward(const Values& input, const Context& context) override;

 private:
  /// A value of the module and what the layer has in its place.
  struct Adopted {
    std::string name;
    at::Tensor theirs, mine;
  };
  void adopt(jit::Module module, const std::string& prefix, std::vector<Adopted>& known);
  at::Tensor adopted_parameter(const std::string& name, const at::Tensor& value, bool is_of_norm);
  Values run(const std::vector<c10::IValue>& arguments, const Context& context);
  c10::IValue call(const std::vector<c10::IValue>& arguments);
  [[noreturn]] void fail(const std::string& message) const {
    throw InputError(concat(file_.string(), ": ", message));
  }

  fs::path file_;
  bool is_last_;
  jit::Module module_;
  bool is_random_ = false;
};

/// What can be said of a layer from its file, without its values.
struct Contents {
  bool has_trained = false, has_frozen = false, has_batch_norm = false;
};

jit::Module load(const fs::path& file, c10::Device device = at::kCPU);
Contents contents_of(const fs::path& file);
/// Whether a module's scale and shift have the type of its statistics.
bool is_batch_norm(const jit::Module& module) {
  return module.hasattr("running_mean");
}
/// Whether they are one value under two names.
bool is_same(const at::Tensor& a, const at::Tensor& b);
/// Whether writing to one may change the other.
bool share_bytes(const at::Tensor& a, const at::Tensor& b);
/// Whether what a block of operators gives depends on a generator.
bool is_random(jit::Block& block);
bool is_random(const jit::Module& module);
std::vector<fs::path> files_of(const config::TorchScriptSpec& spec);

}  // namespace

ChainModel make_torchscript(const config::TorchScriptSpec& spec) {
  ChainModel model{.name = "torchscript",
                   .layers = {},
                   .input = InputKind::kTokens,
                   .input_size = spec.context,
                   .classes = spec.classes};
  if (spec.takes == "vectors") {
    model.input = InputKind::kVectors;
    model.input_size = spec.inputs;
  } else if (spec.takes == "images") {
    model.input = InputKind::kImages;
    model.image = {.channels = spec.channels, .height = spec.image_size, .width = spec.image_size};
    model.input_size = model.image.size();
  }
  const std::vector<fs::path> files = files_of(spec);
  bool is_trained_so_far = false;
  for (const fs::path& file : files) {
    const Contents contents = contents_of(file);
    const bool is_last = file == files.back();
    model.layers.push_back({.name = file.stem().string(),
                            .work = static_cast<double>(io::InputFile(file).size().count()),
                            .build = [file, is_last](const Seeds&) -> std::unique_ptr<Layer> {
                              return std::make_unique<ScriptLayer>(file, is_last);
                            },
                            .has_frozen = contents.has_frozen,
                            .ends_backward = !is_trained_so_far});
    is_trained_so_far = is_trained_so_far || contents.has_trained;
    model.has_batch_norm = model.has_batch_norm || contents.has_batch_norm;
  }
  if (!is_trained_so_far)
    throw InputError(
        "model.files: no layer has a parameter that needs a gradient, so that nothing would be "
        "trained: save modules whose parameters have requires_grad");
  return model;
}

std::string files_digest(const config::ModelSpec& spec) {
  const auto* const script = std::get_if<config::TorchScriptSpec>(&spec);
  if (script == nullptr) return {};
  std::string all;
  for (const fs::path& file : files_of(*script))
    all += concat(file.stem().string(), ' ', digest(io::read_file(file)), '\n');
  return digest(all);
}

namespace {

std::vector<fs::path> files_of(const config::TorchScriptSpec& spec) {
  std::vector<fs::path> files;
  for (const std::string& pattern : spec.files) {
    const std::vector<fs::path> matched = io::expand(pattern);
    if (matched.empty()) throw InputError(concat("model.files: nothing matches ", pattern));
    files.insert(files.end(), matched.begin(), matched.end());
  }
  std::map<std::string, fs::path> names;
  for (const fs::path& file : files) {
    std::error_code none;
    if (!fs::is_regular_file(file, none))
      throw InputError(concat("model.files: ", file.string(), " is no file"));
    const auto [known, is_new] = names.emplace(file.stem().string(), file);
    if (!is_new && known->second == file)
      throw InputError(
          concat("model.files: ", file.string(), " is named by two patterns: a file is one layer"));
    if (!is_new)
      throw InputError(concat("model.files: ", known->second.string(), " and ", file.string(),
                              " would both be layer '", known->first,
                              "': give every layer a name of its own"));
  }
  return files;
}

ScriptLayer::ScriptLayer(fs::path file, bool is_last)
    : file_(std::move(file)), is_last_(is_last), module_(load(file_)) {
  std::vector<Adopted> known;
  adopt(module_, "", known);
  train_only([&](const Parameter& parameter) {
    return std::any_of(known.begin(), known.end(), [&](const Adopted& one) {
      return one.mine.is_same(parameter.value) && one.theirs.requires_grad();
    });
  });
  is_random_ = is_random(module_);
}

/// Puts the layer's own parameters and buffers into the module's places. Several may be parts of
/// one storage, as those of an LSTM are.
void ScriptLayer::adopt(jit::Module module, const std::string& prefix,
                        std::vector<Adopted>& known) {
  const bool is_norm = is_batch_norm(module);
  const auto take = [&](const std::string& name, const at::Tensor& value, bool is_parameter) {
    const auto is_mine = [&](const Adopted& one) { return one.mine.is_same(value); };
    if (std::any_of(known.begin(), known.end(), is_mine)) return;  // a module under two names
    const auto before = std::find_if(known.begin(), known.end(), [&](const Adopted& one) {
      return share_bytes(one.theirs, value);
    });
    if (before != known.end() && !is_same(before->theirs, value))
      fail(concat(prefix, name, " has some of its bytes from ", before->name,
                  ": give it bytes of its own before the module is saved, with .clone()"));
    const auto own = [&] {
      return is_parameter ? adopted_parameter(prefix + name, value, is_norm)
                          : add_buffer(prefix + name, value.clone());
    };
    const at::Tensor mine = before != known.end() ? before->mine : own();
    known.push_back({prefix + name, value, mine});
    module.setattr(name, mine);
  };
  for (const auto& parameter : module.named_parameters(/*recurse=*/false))
    take(parameter.name, parameter.value, parameter.value.is_floating_point());
  for (const auto& buffer : module.named_buffers(/*recurse=*/false))
    take(buffer.name, buffer.value, false);
  for (const auto& child : module.named_children())
    adopt(child.value, concat(prefix, child.name, "."), known);
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

at::Tensor ScriptLayer::adopted_parameter(const std::string& name, const at::Tensor& value,
                                          bool is_of_norm) {
  const bool is_float32 = value.scalar_type() == at::kFloat;
  if (value.requires_grad() && !is_float32)
    fail(concat("parameter ", name, " is ", value.scalar_type(),
                ", must be Float: save the module after .float(); train.precision lowers it"));
  const bool stays = is_of_norm || !is_float32;  // a frozen one may be in any type, and keeps it
  return stays ? add_float32_parameter(name, value.clone()) : add_parameter(name, value.clone());
}

Values ScriptLayer::forward(const Values& input, const Context& context) {
  std::vector<c10::IValue> arguments(input.begin(), input.end());
  std::vector<std::uint32_t> versions;
  for (const at::Tensor& value : input)
    versions.push_back(value.unsafeGetTensorImpl()->version_counter().current_version());
  if (is_last_) arguments.emplace_back(context.target.at(0));
  if (module_.is_training() != context.training) module_.train(context.training);
  const Values output = run(arguments, context);
  for (std::size_t i = 0; i < input.size(); ++i)
    if (versions[i] != input[i].unsafeGetTensorImpl()->version_counter().current_version())
      fail(concat("changes its input ", i,
                  " in place, which other runs of the layer would see: "
                  "give a new tensor instead"));
  return output;
}

Values ScriptLayer::run(const std::vector<c10::IValue>& arguments, const Context& context) {
  // Python's modules draw from the process's generator: one rank at a time, from its own seed.
  static std::mutex one_at_a_time;
  std::unique_lock<std::mutex> lock(one_at_a_time, std::defer_lock);
  if (is_random_) {
    lock.lock();
    at::Generator standard = at::globalContext().defaultGenerator(context.generator.device());
    const std::lock_guard<std::mutex> guard(standard.mutex());
    standard.set_current_seed(context.generator.current_seed());
  }
  const c10::IValue result = call(arguments);
  if (result.isTensor()) return {result.toTensor()};
  if (result.isTensorList()) return result.toTensorVector();
  if (!result.isTuple())
    fail(concat("gives a ", result.tagKind(), ", must give a tensor or a tuple of tensors"));
  Values values;
  for (const c10::IValue& member : result.toTupleRef().elements()) {
    if (!member.isTensor())
      fail(concat("gives a tuple with a ", member.tagKind(), ", must give tensors alone"));
    values.push_back(member.toTensor());
  }
  return values;
}

c10::IValue ScriptLayer::call(const std::vector<c10::IValue>& arguments) {
  const jit::GraphOptimizerEnabledGuard off(false);
  try {
    return module_.forward(arguments);
  } catch (const std::runtime_error& error) {  // what the interpreter makes of an operator's error
    throw Error(concat(file_.string(), ": ", join(split(error.what(), '\n'), " | ")));
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error& error) {  // other arguments than forward takes
    fail(error.what_without_backtrace());
  }
}

jit::Module load(const fs::path& file, c10::Device device) {
  try {
    return jit::load(file.string(), device);
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error& error) {
    throw InputError(concat(file.string(), ": is not a module saved by torch.jit.save: ",
                            split(error.what_without_backtrace(), '\n').front()));
  }
}

Contents contents_of(const fs::path& file) {
  const jit::Module module = load(file, at::kMeta);
  Contents contents;
  for (const at::Tensor& parameter : module.parameters())
    (parameter.requires_grad() ? contents.has_trained : contents.has_frozen) = true;
  for (const jit::Module& part : module.modules())
    contents.has_batch_norm = contents.has_batch_norm || is_batch_norm(part);
  return contents;
}

bool is_random(const jit::Module& module) {
  const std::shared_ptr<jit::Graph> graph = module.get_method("forward").graph()->copy();
  jit::Inline(*graph);
  return is_random(*graph->block());
}

bool is_random(jit::Block& block) {
  for (jit::Node* const node : block.nodes()) {
    if (node->isNondeterministic()) return true;
    for (jit::Block* const inner : node->blocks())
      if (is_random(*inner)) return true;
  }
  return false;
}

}  // namespace
}  // namespace trireme::model
