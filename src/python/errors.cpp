// SPDX-License-Identifier: Apache-2.0
#include "errors.h"

#include "trireme/comm/cause.h"
#include "trireme/core/text.h"
#include "trireme/prepare/does_not_fit.h"

#include <c10/util/Exception.h>
#include <torch/csrc/Exceptions.h>

#include <exception>

namespace trireme::python {
namespace {

PyObject* early_end_type() {
  static PyObject* const type =
      PyErr_NewException("trireme.EarlyEnd", PyExc_BaseException, nullptr);
  return type;
}

/// LibTorch turns it into that Python exception where it enters Python's frames.
struct EarlyEndInPython final : torch::PyTorchError {
  EarlyEndInPython() : torch::PyTorchError("a recomputed forward has saved all that is needed") {}
  PyObject* python_type() override { return early_end_type(); }
};

py::object type_of(const char* module, const char* name) {
  return py::module_::import(module).attr(name);
}

/// "ValueError: no such thing", and the lines of the caller's code that led there.
std::string told(const py::error_already_set& error) {
  const py::object tell = type_of("trireme._errors", "told");
  return tell(error.value(), error.trace() ? error.trace() : py::none()).cast<std::string>();
}

void convert_backward_error() {
  try {
    throw;
  } catch (python_error& error) {
    keep_thread_state();
    const py::gil_scoped_acquire gil;
    if (PyErr_Occurred() == nullptr) error.restore();
    const py::error_already_set raised;  // takes it from the thread
    rethrow(raised);
  } catch (const py::error_already_set& error) {
    const py::gil_scoped_acquire gil;
    rethrow(error);
  } catch (...) {  // not Python's
  }
}

std::string after(const std::string& where, const std::string& text) {
  return where.empty() ? text : concat(where, ": ", text);
}

[[noreturn]] void raise(const py::object& exception) {
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(exception.ptr())), exception.ptr());
  throw py::error_already_set();
}

}  // namespace

Raised::Raised(const std::string& where, py::error_already_set error)
    : Error(after(where, told(error))),
      error_(std::make_shared<py::error_already_set>(std::move(error))) {}

void throw_early_end() {
  throw EarlyEndInPython();
}

void rethrow(const py::error_already_set& error, const std::string& where) {
  if (error.matches(early_end_type())) throw model::EarlyEnd{};
  if (error.matches(PyExc_KeyboardInterrupt)) throw Interrupted("stopped on request");
  if (error.matches(PyExc_SystemExit)) throw Raised(where, error);
  if (error.matches(type_of("torch", "OutOfMemoryError")))
    TORCH_CHECK_WITH(OutOfMemoryError, false,
                     after(where, py::str(error.value()).cast<std::string>()));
  throw InputError(after(where, told(error)));
}

const model::ForeignBackwards kBackwards{.convert_error = &convert_backward_error};

void raise_in_python() {
  try {
    throw;
  } catch (const Raised& error) {
    error.raise_again();
  } catch (const py::error_already_set&) {
    throw;
  } catch (const prepare::DoesNotFit& error) {
    const Bytes least = error.infeasible().least_budget;
    const py::object budget = least > Bytes(0) ? py::object(py::int_(least.count())) : py::none();
    raise(type_of("trireme._errors", "DoesNotFit")(std::string(error.what()), budget));
  } catch (const comm::EndingError& error) {  // layers have outgrown their measured sizes
    const bool is_of_memory = error.ending() == comm::Ending::kDoesNotFit;
    raise(is_of_memory ? type_of("torch", "OutOfMemoryError")(std::string(error.what()))
                       : type_of("trireme._errors", "Error")(std::string(error.what())));
  } catch (const InputError& error) {
    raise(type_of("trireme._errors", "InputError")(std::string(error.what())));
  } catch (const Interrupted& error) {
    raise(py::reinterpret_borrow<py::object>(PyExc_KeyboardInterrupt)(std::string(error.what())));
  } catch (const c10::OutOfMemoryError& error) {
    raise(type_of("torch", "OutOfMemoryError")(std::string(error.what_without_backtrace())));
  } catch (const std::exception& error) {
    raise(type_of("trireme._errors", "Error")(words_of(error)));
  }
}

}  // namespace trireme::python
