// SPDX-License-Identifier: Apache-2.0
#include "python_layer.h"

#include "errors.h"

#include "trireme/core/text.h"
#include "trireme/model/default_generator.h"
#include "trireme/model/foreign.h"
#include "trireme/model/given.h"

#include <ATen/ATen.h>
#include <ATen/SavedTensorHooks.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/python_variable.h>

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

namespace trireme::python {
namespace {

py::object wrapped(const at::Tensor& tensor) {
  return py::reinterpret_steal<py::object>(THPVariable_Wrap(tensor));
}

/// Whether a tensor that a module holds `slots` times, or its bytes, is also someone else's:
/// another layer's, the caller's, a part of a larger one. `theirs` and its Part hold it besides.
bool is_held_by_others(const py::object& theirs, std::size_t slots) {
  const at::Tensor& value = THPVariable_Unpack(theirs.ptr());
  const bool is_whole = value.storage().nbytes() == value.nbytes();
  return !is_whole || value.storage().use_count() > 1 ||
         std::cmp_greater(Py_REFCNT(theirs.ptr()), slots + 2);
}

/// Throws InputError if somebody around the layer keeps saved tensors in its own way.
void require_no_hooks() {
  if (!at::SavedTensorDefaultHooks::get_tls_state().stack.empty())
    throw InputError(
        "torch.autograd.graph.saved_tensors_hooks (or save_on_cpu) is active around the layer, "
        "where Trireme decides what is kept and where: use it inside of a layer's forward");
}

/// The loss's share of a step whose masked targets count for nothing, as Context::target says.
at::Tensor share_of_step(const at::Tensor& loss, const model::Values& target) {
  const at::Tensor counted = at::sum(at::ne(target.at(0), model::kMasked)).to(at::kFloat);
  return loss.to(at::kFloat) * (counted * target.at(1));
}

}  // namespace

/// Puts the layer's tensors back where a forward has assigned others, however it ends: a buffer's
/// new values are taken over, a parameter's are refused.
class PythonLayer::OwnSlots {
 public:
  explicit OwnSlots(const std::vector<Slot>& slots) : slots_(slots) {}
  ~OwnSlots() {
    for (const Slot& slot : slots_)
      if (now(slot) != slot.mine.ptr())
        PyDict_SetItem(slot.table.ptr(), slot.key.ptr(), slot.mine.ptr());
  }
  OwnSlots(const OwnSlots&) = delete;
  OwnSlots& operator=(const OwnSlots&) = delete;

  void take_over() {
    const at::NoGradGuard no_grad;
    for (const Slot& slot : slots_) {
      PyObject* const found = now(slot);
      if (found == slot.mine.ptr()) continue;
      if (!slot.is_buffer || found == nullptr || !THPVariable_Check(found))
        throw InputError(concat("forward assigns to ", slot.name,
                                ", which must stay the same tensor: compute a new value instead"));
      THPVariable_Unpack(slot.mine.ptr()).copy_(THPVariable_Unpack(found));
    }
  }

 private:
  static PyObject* now(const Slot& slot) {
    return PyDict_GetItem(slot.table.ptr(), slot.key.ptr());
  }

  const std::vector<Slot>& slots_;
};

PythonLayer::PythonLayer(py::object module, LayerOptions options)
    : module_(std::move(module)), options_(std::move(options)) {
  adopt();
  module_.attr("train")(true);
}

PythonLayer::~PythonLayer() {
  const py::gil_scoped_acquire gil;
  slots_.clear();
  module_ = {};
}

void PythonLayer::adopt() {
  std::set<std::string> frozen;
  const py::object parts_of = py::module_::import("trireme._parts").attr("parts_of");
  for (const py::handle each : parts_of(module_)) {
    const auto part = py::reinterpret_borrow<py::object>(each);
    const auto name = part.attr("name").cast<std::string>();
    const bool is_parameter = part.attr("is_parameter").cast<bool>();
    py::object mine = wrapped(added(part));
    if (is_parameter) {
      mine.attr("_is_param") = true;  // what isinstance(mine, nn.Parameter) asks for
      if (!part.attr("is_trained").cast<bool>()) frozen.insert(name);
    }
    for (const py::handle slot : part.attr("slots")) {
      const auto [table, key] = slot.cast<std::pair<py::dict, py::object>>();
      slots_.push_back({name, table, key, mine, !is_parameter});
    }
  }
  const std::vector<Slot> slots = slots_;
  for (const Slot& slot : slots) PyDict_SetItem(slot.table.ptr(), slot.key.ptr(), slot.mine.ptr());
  train_only([&](const model::Parameter& parameter) { return !frozen.contains(parameter.name); });
}

at::Tensor PythonLayer::added(const py::object& part) {
  const auto name = part.attr("name").cast<std::string>();
  const py::object theirs = part.attr("value");
  const bool is_shared = is_held_by_others(theirs, py::len(part.attr("slots")));
  at::Tensor value = THPVariable_Unpack(theirs.ptr()).detach();
  if (is_shared) value = value.clone();
  if (!part.attr("is_parameter").cast<bool>())
    return add_buffer(name, value, part.attr("is_saved").cast<bool>());
  const auto tie = options_.ties.find(name);
  if (part.attr("stays_as_it_is").cast<bool>()) return add_float32_parameter(name, value);
  return add_parameter(name, value, tie == options_.ties.end() ? "" : tie->second);
}

model::Values PythonLayer::forward(const model::Values& input, const model::Context& context) {
  require_no_hooks();
  keep_thread_state();
  const model::DefaultGenerator drawn_from(context.generator);
  const py::gil_scoped_acquire gil;  // after the generator: operators let go of it meanwhile
  try {
    if (std::exchange(is_training_, context.training) != context.training)
      module_.attr("train")(context.training);
    OwnSlots slots(slots_);
    model::Values output = values_of(called(arguments_of(input, context)));
    slots.take_over();
    model::require_output(output, context);
    require_gradient(input, output);
    if (context.target.size() > 1) output = {share_of_step(output.front(), context.target)};
    return output;
  } catch (const py::error_already_set& error) {
    const bool takes_too_few =
        error.matches(PyExc_TypeError) &&
        std::string_view(error.what()).find("positional argument") != std::string_view::npos;
    rethrow(error,
            options_.is_last && takes_too_few ? "the last layer is given the target, too" : "");
  }
}

py::object PythonLayer::called(const py::tuple& arguments) const {
  const model::EarlyEndScope early_end(&throw_early_end);  // of Python's frames alone
  return module_(*arguments);
}

py::tuple PythonLayer::arguments_of(const model::Values& input,
                                    const model::Context& context) const {
  const bool has_target = options_.is_last && !context.target.empty();
  py::tuple arguments(input.size() + (has_target ? 1 : 0));
  for (std::size_t i = 0; i < input.size(); ++i) arguments[i] = wrapped(input[i]);
  if (has_target) arguments[input.size()] = wrapped(context.target.front());
  return arguments;
}

model::Values PythonLayer::values_of(const py::object& result) {
  if (THPVariable_Check(result.ptr())) return {THPVariable_Unpack(result.ptr())};
  const auto type_name = [](const py::handle& object) {
    return std::string(Py_TYPE(object.ptr())->tp_name);
  };
  if (!PyTuple_Check(result.ptr()) && !PyList_Check(result.ptr()))
    throw InputError(
        concat("forward gave a ", type_name(result), ", must give a tensor or a tuple of tensors"));
  model::Values values;
  for (const py::handle member : result) {
    if (!THPVariable_Check(member.ptr()))
      throw InputError(
          concat("forward gave a tuple with a ", type_name(member), ", must give tensors alone"));
    values.push_back(THPVariable_Unpack(member.ptr()));
  }
  return values;
}

void PythonLayer::require_gradient(const model::Values& input, const model::Values& output) const {
  if (!at::GradMode::is_enabled()) return;
  const auto wants = [](const at::Tensor& value) { return value.requires_grad(); };
  const bool is_wanted = std::any_of(input.begin(), input.end(), wants) ||
                         std::any_of(parameters().begin(), parameters().end(),
                                     [](const model::Parameter& each) { return each.is_trained; });
  if (!is_wanted || std::any_of(output.begin(), output.end(), wants)) return;
  throw InputError(concat("forward gave ", model::types_text(output),
                          ", through which no gradient flows, so that neither its parameters nor "
                          "the layers before it would be trained: leave out detach() and "
                          "torch.no_grad(), and freeze parameters by requires_grad_(False)"));
}

}  // namespace trireme::python
