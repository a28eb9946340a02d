// SPDX-License-Identifier: Apache-2.0
#include "python.h"

#include <utility>

namespace trireme::python {
namespace {

/// A thread of C++ as Python sees it, from its first call to its end.
class ThreadState {
 public:
  ThreadState() {
    if (PyGILState_GetThisThreadState() != nullptr) return;  // Python's own thread, or kept
    ensured_ = PyGILState_Ensure();
    released_ = PyEval_SaveThread();
  }
  ~ThreadState() {
    if (released_ == nullptr) return;
    PyEval_RestoreThread(released_);
    PyGILState_Release(ensured_);
  }
  ThreadState(const ThreadState&) = delete;
  ThreadState& operator=(const ThreadState&) = delete;

 private:
  PyGILState_STATE ensured_ = PyGILState_UNLOCKED;
  PyThreadState* released_ = nullptr;
};

}  // namespace

Held held(py::object object) {
  return {new py::object(std::move(object)), [](py::object* one) {
            const py::gil_scoped_acquire gil;
            delete one;
          }};
}

void keep_thread_state() {
  thread_local const ThreadState state;
}

}  // namespace trireme::python
