// Modules run without the graph executor's own differentiation, whose nodes would keep tensors that
// the tape does not see: every operator is recorded by autograd individually.
// SPDX-License-Identifier: Apache-2.0
#include "architectures/script_layer.h"

#include "architectures/script_values.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/model/default_generator.h"
#include "trireme/model/given.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/jit/runtime/graph_executor.h>

#include <algorithm>
#include <new>
#include <optional>
#include <stdexcept>
#include <utility>

namespace trireme::model {
namespace {

namespace jit = torch::jit;

/// Detects changes of tensors that a forward must not change.
class Watch {
 public:
  void add(const std::string& name, const at::Tensor& tensor) {
    if (tensor.defined()) watched_.push_back({name, tensor, version_of(tensor)});
  }
  /// The name of the first changed tensor; empty if none.
  std::string changed() const {
    for (const auto& [name, tensor, version] : watched_)
      if (version_of(tensor) != version) return name;
    return {};
  }

 private:
  struct Watched {
    std::string name;
    at::Tensor tensor;
    std::uint32_t version;
  };
  static std::uint32_t version_of(const at::Tensor& tensor) {
    return tensor.unsafeGetTensorImpl()->version_counter().current_version();
  }
  std::vector<Watched> watched_;
};

/// Throws InputError for NaN, and for infinities in trained parameters: no usable checkpoint could
/// be saved.
void require_numbers(const std::filesystem::path& file, const std::string& name,
                     const at::Tensor& value);
/// Reorders an interpreter error: first the reason, then where it occurred.
std::string reason_first(const std::string& words);
/// Classify errors by text: the interpreter throws one type for all.
bool is_of_memory(const std::string& words);
/// Rethrows an out-of-memory error as before it passed the interpreter.
[[noreturn]] void throw_out_of_memory(const std::string& words, const std::string& file);
bool is_of_device(const std::string& words);

}  // namespace

/// For a forward that assigns other tensors to buffers: in Python a tape then keeps the old ones
/// unchanged. While this object lives, the module has copies, which the tape keeps, even if the
/// forward throws.
class ScriptLayer::LentBuffers {
 public:
  explicit LentBuffers(ScriptLayer& layer) : layer_(layer) {
    for (Slot& slot : layer_.buffer_slots_) {
      const auto known = std::find_if(lent_.begin(), lent_.end(), [&](const Lent& one) {
        return one.value.is_same(slot.value);
      });
      if (known == lent_.end()) lent_.push_back({slot.value, slot.value.clone()});
      slot.module.setattr(slot.attribute, copy_of(slot.value));
    }
  }
  ~LentBuffers() {
    for (Slot& slot : layer_.buffer_slots_) slot.module.setattr(slot.attribute, slot.value);
  }
  LentBuffers(const LentBuffers&) = delete;
  LentBuffers& operator=(const LentBuffers&) = delete;

  /// Copies the module's buffers back into the layer's: first changes in place, then assigned
  /// tensors.
  void take_back();

 private:
  struct Lent {
    at::Tensor value, copy;
  };
  const at::Tensor& copy_of(const at::Tensor& value) const {
    return std::find_if(lent_.begin(), lent_.end(),
                        [&](const Lent& one) { return one.value.is_same(value); })
        ->copy;
  }

  ScriptLayer& layer_;
  std::vector<Lent> lent_;
};

ScriptLayer::ScriptLayer(std::filesystem::path file, ScriptOptions options)
    : file_(std::move(file)), options_(std::move(options)), module_(load_script(file_)) {
  std::vector<Adopted> known;
  adopt(module_, "", known);
  train_only([&](const Parameter& parameter) {
    return std::any_of(known.begin(), known.end(), [&](const Adopted& one) {
      return one.mine.is_same(parameter.value) && one.theirs.requires_grad();
    });
  });
  const ForwardTraits traits = traits_of_forward(module_);
  is_random_ = traits.is_random;
  sets_buffers_ = traits.sets_buffers;
}

/// Puts the layer's parameters and buffers into the module. Several may be parts of one storage, as
/// in an LSTM.
void ScriptLayer::adopt(jit::Module module, const std::string& prefix,
                        std::vector<Adopted>& known) {
  const bool is_norm = is_batch_norm(module);
  const auto take = [&](const std::string& name, const at::Tensor& value, bool is_parameter) {
    const auto is_mine = [&](const Adopted& one) { return one.mine.is_same(value); };
    if (std::any_of(known.begin(), known.end(), is_mine)) return;  // a module under two names
    if (!may_be_saved(value)) {
      if (value.requires_grad())
        fail(concat("parameter ", prefix, name, " is ", kind_text(value), ", must be Float"));
      constants_.push_back({module, name, prefix + name, value});
      return;
    }
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
    if (!is_parameter) buffer_slots_.push_back({module, name, prefix + name, mine});
  };
  for (const auto& parameter : module.named_parameters(/*recurse=*/false))
    take(parameter.name, parameter.value, parameter.value.is_floating_point());
  for (const auto& buffer : module.named_buffers(/*recurse=*/false))
    take(buffer.name, buffer.value, false);
  for (const auto& [name, value] : tensor_attributes(module))
    constants_.push_back({module, name, prefix + name, value});
  for (const auto& child : module.named_children())
    adopt(child.value, concat(prefix, child.name, "."), known);
}

at::Tensor ScriptLayer::adopted_parameter(const std::string& name, const at::Tensor& value,
                                          bool is_of_norm) {
  const bool is_float32 = value.scalar_type() == at::kFloat;
  if (value.requires_grad() && !is_float32)
    fail(concat("parameter ", name, " is ", value.scalar_type(),
                ", must be Float: save the module after .float(); train.precision lowers it"));
  const auto tie = options_.ties.find(name);
  const bool stays = is_of_norm || !is_float32;  // a frozen one may have any type, and keeps it
  if (stays && tie != options_.ties.end())
    fail(concat("parameter ", name, " is ", value.scalar_type(), is_of_norm ? " of a norm" : "",
                ": model.tied is for weights of type Float that are no batch norm's"));
  if (stays) return add_float32_parameter(name, value.clone());
  return add_parameter(name, value.clone(), tie == options_.ties.end() ? "" : tie->second);
}

std::string file_of(const Layer& layer) {
  const auto* const script = dynamic_cast<const ScriptLayer*>(&layer);
  return script == nullptr ? "" : script->file().string();
}

ScriptContents contents_of_script(const std::filesystem::path& file) {
  const jit::Module module = load_script(file);
  const auto fail = [&](const std::string& message) {
    throw InputError(concat(file.string(), ": ", message));
  };
  ScriptContents contents;
  for (const at::Tensor& parameter : module.parameters())
    (parameter.requires_grad() ? contents.has_trained : contents.has_frozen) = true;
  for (const auto& parameter : module.named_parameters())
    require_numbers(file, "parameter " + parameter.name, parameter.value);
  for (const auto& buffer : module.named_buffers())
    require_numbers(file, "buffer " + buffer.name, buffer.value);
  for (const jit::Module& part : module.modules())
    contents.has_batch_norm = contents.has_batch_norm || is_batch_norm(part);
  if (!module.find_method("forward")) fail("has no method forward, which every layer must have");
  if (const std::string set = traits_of_forward(module).sets_other; !set.empty())
    fail(concat("forward sets the attribute ", set,
                ": what a layer remembers must be a registered buffer"));
  return contents;
}

Values ScriptLayer::forward(const Values& input, const Context& context) {
  Watch watch;
  std::vector<c10::IValue> arguments(input.begin(), input.end());
  for (std::size_t i = 0; i < input.size(); ++i) watch.add(concat("input ", i), input[i]);
  if (options_.is_last) {
    if (context.target.empty()) fail("gives a loss, for which there must be a target");
    arguments.emplace_back(context.target.front());
    watch.add("target", context.target.front());
  }
  for (const Parameter& each : parameters()) watch.add("parameter " + each.name, each.value);
  for (const Slot& each : constants_) watch.add("tensor " + each.name, each.value);
  if (module_.is_training() != context.training) module_.train(context.training);
  std::optional<LentBuffers> lent;
  if (sets_buffers_) lent.emplace(*this);
  Values output = run(arguments, context);
  if (const std::string changed = watch.changed(); !changed.empty())
    fail(concat("changes its ", changed,
                " in place, which other runs of the layer would see: give a new tensor instead, "
                "and register as a buffer what the layer is to remember"));
  if (lent) lent->take_back();
  try {
    require_output(output, context);
  } catch (const InputError& error) {
    fail(error.what());
  }
  require_gradient(input, output);
  if (context.target.size() > 1) output = {share_of_step(output.front(), context.target)};
  return output;
}

Values ScriptLayer::run(const std::vector<c10::IValue>& arguments, const Context& context) {
  std::optional<DefaultGenerator> drawn_from;
  if (is_random_) drawn_from.emplace(context.generator);
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
  const auto was_given = [&] {
    Values given;
    for (const c10::IValue& argument : arguments) given.push_back(argument.toTensor());
    return concat(" (it was given ", types_text(given), ")");
  };
  std::string words;  // of an operator that failed
  try {
    return module_.forward(arguments);
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error& error) {
    // Arguments that do not match forward's, or, in LibTorch 2.15, an operator's error.
    const std::string said = error.what_without_backtrace();
    words = reason_first(said);
    if (words == said) fail(concat(said, was_given()));
  } catch (const std::runtime_error& error) {  // an operator's error in LibTorch 2.11
    words = reason_first(error.what());
  }
  if (is_of_memory(words)) throw_out_of_memory(words, file_.string());
  if (is_of_device(words)) throw Error(concat(file_.string(), ": ", words));
  const std::size_t line = std::min(words.find('\n'), words.size());
  fail(concat("forward failed: ", words.substr(0, line), was_given(), words.substr(line)));
}

void ScriptLayer::require_gradient(const Values& input, const Values& output) const {
  if (!at::GradMode::is_enabled()) return;
  const auto wants = [](const at::Tensor& value) { return value.requires_grad(); };
  const bool is_wanted = std::any_of(input.begin(), input.end(), wants) ||
                         std::any_of(parameters().begin(), parameters().end(),
                                     [](const Parameter& each) { return each.is_trained; });
  if (!is_wanted || std::any_of(output.begin(), output.end(), wants)) return;
  fail(concat("forward gave ", types_text(output),
              ", through which no gradient flows, so that neither its parameters nor the layers "
              "before it would learn: leave out .detach(), no_grad and operators without a "
              "derivative, or freeze what is not to learn with requires_grad_(False)"));
}

void ScriptLayer::LentBuffers::take_back() {
  const at::NoGradGuard no_grad;
  for (const Lent& one : lent_) one.value.copy_(one.copy);
  for (const Slot& slot : layer_.buffer_slots_) {
    const at::Tensor given = slot.module.attr(slot.attribute).toTensor();
    if (given.is_same(copy_of(slot.value))) continue;
    if (given.sizes() != slot.value.sizes() || given.scalar_type() != slot.value.scalar_type())
      layer_.fail(concat("sets its buffer ", slot.name, " to ", types_text({given}),
                         ", must leave it ", types_text({slot.value})));
    slot.value.copy_(given.detach());
  }
}

at::Tensor ScriptLayer::share_of_step(const at::Tensor& loss, const Values& target) const {
  const at::Tensor counted = at::sum(at::ne(target.at(0), kMasked)).to(at::kFloat);
  return loss.to(at::kFloat) * (counted * target.at(1));
}

void ScriptLayer::fail(const std::string& message) const {
  throw InputError(concat(file_.string(), ": ", message));
}

namespace {

/// Start of the first line after `from` that names an error as the interpreter does ("RuntimeError:
/// ..."), since source lines may precede it; `from` if there is none.
std::size_t named_error(const std::string& words, std::size_t from) {
  for (std::size_t line = from; line < words.size();) {
    const std::size_t end = std::min(words.find('\n', line), words.size());
    const std::string_view text = std::string_view(words).substr(line, end - line);
    const std::string_view name = text.substr(0, text.find_first_of(": "));
    if (name.ends_with("Error") || name.ends_with("Exception")) return line;
    line = end + 1;
  }
  return from;
}

void require_numbers(const std::filesystem::path& file, const std::string& name,
                     const at::Tensor& value) {
  const at::NoGradGuard no_grad;
  const at::ScalarType type = value.scalar_type();
  const bool is_looked_at =
      value.layout() == at::kStrided &&
      (type == at::kFloat || type == at::kDouble || type == at::kHalf || type == at::kBFloat16);
  if (!is_looked_at) return;
  const bool has_nan = at::isnan(value).any().item<bool>();
  if (!has_nan && !(value.requires_grad() && at::isinf(value).any().item<bool>())) return;
  throw InputError(
      concat(file.string(), ": ", name, " has ", has_nan ? "nan" : "infinity",
             ", must have numbers: save the module with those that it shall begin with"));
}

std::string reason_first(const std::string& words) {
  constexpr std::string_view kHere = "<--- HERE\n", kHead = "The following operation failed";
  const std::size_t here = words.rfind(kHere);
  if (words.rfind(kHead, 0) != 0 || here == std::string::npos) return words;
  const std::size_t begin = named_error(words, here + kHere.size());
  std::string reason = words.substr(begin);
  while (!reason.empty() && reason.back() == '\n') reason.pop_back();
  const std::size_t trace = words.find('\n') + 1;
  return concat(reason, "\n", words.substr(trace, begin - 1 - trace));
}

bool is_of_memory(const std::string& words) {
  const std::string reason = words.substr(0, words.find('\n'));
  for (const char* const sign :
       {"the memory budget of", "out of memory", "no memory left", "bad_alloc"})
    if (reason.find(sign) != std::string::npos) return true;
  return false;
}

void throw_out_of_memory(const std::string& words, const std::string& file) {
  constexpr std::string_view kClass = "RuntimeError: ";
  const std::string reason = words.substr(0, words.find('\n'));
  const std::size_t begin = reason.rfind(kClass, 0) == 0 ? kClass.size() : 0;
  TORCH_CHECK_WITH(OutOfMemoryError, false, reason.substr(begin), " (in forward of ", file, ")");
  throw std::bad_alloc();  // not reached
}

bool is_of_device(const std::string& words) {
  return words.substr(0, words.find('\n')).find("CUDA error") != std::string::npos;
}

}  // namespace
}  // namespace trireme::model
