// A layer alone, for tests that compare it with plain PyTorch: every way in which the runtime runs
// one (trireme/model/taped.h).
// SPDX-License-Identifier: Apache-2.0
#include "errors.h"
#include "python.h"
#include "python_layer.h"

#include "trireme/model/foreign.h"
#include "trireme/model/gradient_sums.h"
#include "trireme/model/taped.h"

#include <ATen/CPUGeneratorImpl.h>
#include <pybind11/stl.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trireme::python {
namespace {

using model::Precision, model::Values;

class Probe {
 public:
  Probe(py::object module, bool is_last) : layer_(std::move(module), {.is_last = is_last}) {
    std::vector<at::Tensor> trained;
    for (const model::Parameter& parameter : layer_.parameters())
      if (parameter.is_trained) trained.push_back(parameter.value);
    sums_.emplace(trained);
  }

  Values untaped(const Values& input, std::uint64_t seed, const Values& target, bool training) {
    return model::untaped_forward(layer_, input, context(seed, target, training),
                                  Precision::kFloat32);
  }
  Values taped(const Values& input, std::uint64_t seed, const Values& target, bool may_move) {
    tape_ = model::taped_forward(layer_, input, context(seed, target), Precision::kFloat32,
                                 model::InputGradient::kNeeded,
                                 may_move ? model::TapeUse::kMayMove : model::TapeUse::kStays);
    storages_ = tape_->storages.size();
    return tape_->outputs;
  }
  Values retaped(const Values& input, std::uint64_t seed, const Values& target) {
    model::Outlined outlined = model::outlined_forward(
        layer_, input, context(seed, target), Precision::kFloat32, model::InputGradient::kNeeded);
    tape_ = model::retape(std::move(outlined.outline), layer_, input, context(seed, target),
                          Precision::kFloat32);
    return outlined.outputs;
  }
  /// Gradients of the input, then of the trained parameters.
  Values backward(const Values& gradients, bool is_split) {
    sums_->begin_anew();
    Values all = is_split ? split(gradients) : model::backward(take_tape(), gradients);
    sums_->complete();
    std::size_t next = 0;
    for (const model::Parameter& parameter : layer_.parameters())
      if (parameter.is_trained) all.push_back(sums_->of(next++).clone());
    return all;
  }
  std::size_t storages() const { return storages_; }
  Values parameters() const {
    Values values;
    for (const model::Parameter& parameter : layer_.parameters()) values.push_back(parameter.value);
    return values;
  }
  std::vector<std::string> buffers() const {
    std::vector<std::string> names;
    for (const model::Buffer& buffer : layer_.buffers()) names.push_back(buffer.name);
    return names;
  }

 private:
  static model::Context context(std::uint64_t seed, const Values& target, bool training = true) {
    return {
        .generator = at::detail::createCPUGenerator(seed), .training = training, .target = target};
  }
  model::Tape take_tape() { return *std::exchange(tape_, std::nullopt); }
  Values split(const Values& gradients) {
    model::SplitBackward parts = model::backward_input(take_tape(), gradients, {&*sums_});
    parts.pending.add();
    return parts.input_gradients;
  }

  PythonLayer layer_;
  std::optional<model::GradientSums> sums_;
  std::optional<model::Tape> tape_;
  std::size_t storages_ = 0;
};

/// A method that runs without the GIL, with errors as trireme raises them.
template <class Result, class... Arguments>
auto in_cpp(Result (Probe::*method)(Arguments...)) {
  return [method](Probe& probe, std::remove_cvref_t<Arguments>... arguments) {
    try {
      const py::gil_scoped_release no_gil;
      return (probe.*method)(arguments...);
    } catch (...) {
      raise_in_python();
    }
  };
}

}  // namespace
}  // namespace trireme::python

PYBIND11_MODULE(trireme_probe, m) {
  using trireme::python::Probe;  // NOLINT: of one function
  namespace py = pybind11;
  trireme::model::expect_foreign_backwards(&trireme::python::kBackwards);
  py::class_<Probe>(m, "Probe")
      .def(py::init<py::object, bool>(), py::arg("module"), py::arg("is_last") = false)
      .def("untaped", trireme::python::in_cpp(&Probe::untaped))
      .def("taped", trireme::python::in_cpp(&Probe::taped))
      .def("retaped", trireme::python::in_cpp(&Probe::retaped))
      .def("backward", trireme::python::in_cpp(&Probe::backward))
      .def("storages", &Probe::storages)
      .def("parameters", &Probe::parameters)
      .def("buffers", &Probe::buffers);
}
