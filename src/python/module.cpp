// trireme._core: what the Python package trireme calls.
// SPDX-License-Identifier: Apache-2.0
#include "chain_of_modules.h"
#include "errors.h"
#include "python_examples.h"

#include "trireme/app_runtime/in_process.h"
#include "trireme/app_runtime/run.h"
#include "trireme/config/huggingface.h"
#include "trireme/core/digest.h"
#include "trireme/core/text.h"
#include "trireme/model/foreign.h"
#include "trireme/ranks/launch.h"
#include "trireme/tier/memory.h"

#include <ATen/ATen.h>
#include <pybind11/stl.h>

#include <iterator>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace trireme::python {
namespace {

using Kinds = std::map<std::string, py::object>;

model::ModelRegistry registry_of(const Kinds& kinds) {
  model::ModelRegistry registry;
  for (const auto& [kind, make] : kinds) registry.emplace(kind, factory_of(make));
  return registry;
}

/// `model`: the kind of a chain that is handed over, "" where the job names the model.
app::GivenJob given(const std::string& job, const std::optional<std::string>& text,
                    const std::string& model, const Kinds& kinds) {
  return {.file = job, .text = text, .kinds = registry_of(kinds), .model = model};
}

/// Null for None.
std::function<std::unique_ptr<data::OwnExamples>()> reader_of(const py::object& examples) {
  if (examples.is_none()) return {};
  return [object = held(examples)] { return examples_of(object); };
}

/// Runs without the GIL; errors of C++ come out as those of Python.
template <class Run>
auto in_cpp(const Run& run) {
  try {
    const py::gil_scoped_release no_gil;
    return run();
  } catch (...) {
    raise_in_python();
  }
}

/// A callback of C++ for one of Python that takes a step's figures.
std::function<void(const record::StepMetrics&)> step_callback(const py::object& on_step) {
  if (on_step.is_none()) return {};
  return [call = held(on_step)](const record::StepMetrics& step) {
    keep_thread_state();
    const py::gil_scoped_acquire gil;
    try {
      (*call)(step.step, step.loss, step.learning_rate, step.gradient_norm, step.time.count(),
              step.tokens);
    } catch (py::error_already_set& error) {
      throw Raised("on_step", std::move(error));
    }
  };
}

std::pair<int, std::string> train(const std::string& job, const std::optional<std::string>& text,
                                  const std::string& model, const Kinds& kinds,
                                  const py::object& examples, const py::object& validation,
                                  const py::object& on_step) {
  app::Training training{.job = given(job, text, model, kinds), .on_step = step_callback(on_step)};
  training.job.examples = reader_of(examples);
  training.job.validation = reader_of(validation);
  const app::Trained trained = in_cpp([&] { return app::train(training); });
  return {trained.code, trained.folder};
}

std::string plan(const std::string& job, const std::optional<std::string>& text,
                 const std::string& model, const Kinds& kinds, int ranks,
                 const std::string& plan_file, const std::string& page) {
  const app::Planning planning{
      .job = given(job, text, model, kinds), .ranks = ranks, .plan_file = plan_file, .page = page};
  return in_cpp([&] { return app::plan(planning); });
}

int run(const std::vector<std::string>& arguments, const Kinds& kinds) {
  const model::ModelRegistry registry = registry_of(kinds);
  std::vector<const char*> argv;
  for (const std::string& argument : arguments) argv.push_back(argument.c_str());
  return in_cpp([&] { return app::run(static_cast<int>(argv.size()), argv.data(), registry); });
}

void export_weights(const std::string& run, const std::string& file, const Kinds& kinds) {
  const model::ModelRegistry registry = registry_of(kinds);
  in_cpp([&] { app::export_weights(run, file, registry); });
}

/// Digest of a dense tensor's type and values.
std::string digest(const at::Tensor& tensor) {
  const py::gil_scoped_release no_gil;
  const at::Tensor values = tensor.detach().contiguous();
  return concat(values.scalar_type(), ' ',
                trireme::digest(values.const_data_ptr(), values.nbytes()));
}

/// For tier::collect_before_refusing(): frees tensors that only reference cycles hold.
void collect_garbage() {
  const py::gil_scoped_acquire gil;
  const py::error_scope kept;  // an allocation may be part of the handling of an error
  PyGC_Collect();
}

}  // namespace
}  // namespace trireme::python

PYBIND11_MODULE(_core, m) {
  using namespace trireme;  // NOLINT: of one function
  model::expect_foreign_backwards(&python::kBackwards);
  tier::collect_before_refusing(&python::collect_garbage);
  m.attr("TOKENIZER_FILES") = py::cast(std::vector<std::string>(std::begin(config::kTokenizerFiles),
                                                                std::end(config::kTokenizerFiles)));
  m.def("train", &python::train);
  m.def("plan", &python::plan);
  m.def("run", &python::run);
  m.def("export_weights", &python::export_weights);
  m.def("digest", &python::digest);
  m.def("is_speaker", &ranks::is_speaker);
}
