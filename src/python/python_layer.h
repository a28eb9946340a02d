// A layer whose forward is that of a torch.nn.Module.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "python.h"

#include "trireme/model/layer.h"

#include <map>
#include <string>
#include <vector>

namespace trireme::python {

struct LayerOptions {
  bool is_last = false;                          ///< called with the target, too; gives the loss
  std::map<std::string, std::string> ties = {};  ///< by parameter: Parameter::tie
};

/// The module's parameters and buffers become the layer's, so that they are counted, moved, saved
/// and updated as those of any layer, and Python sees it.
class PythonLayer final : public model::Layer {
 public:
  /// Takes the module over: it is used here alone from then on. Throws InputError for what a layer
  /// cannot have. The GIL is held.
  PythonLayer(py::object module, LayerOptions options);
  ~PythonLayer() override;

  /// Runs Python on this thread; other threads that run layers wait, for the process has one
  /// default generator. Throws InputError with the caller's lines for an error in the module, and
  /// if it does what a layer must not. The GIL is not held.
  model::Values forward(const model::Values& input, const model::Context& context) override;

 private:
  /// An entry of a dictionary of the module, and the layer's tensor that belongs there.
  struct Slot {
    std::string name;  ///< of the tensor
    py::dict table;    ///< `_parameters` or `_buffers` of a part of the module
    py::object key, mine;
    bool is_buffer = false;
  };
  class OwnSlots;

  void adopt();
  at::Tensor added(const py::object& part);
  py::object called(const py::tuple& arguments) const;
  py::tuple arguments_of(const model::Values& input, const model::Context& context) const;
  static model::Values values_of(const py::object& result);
  void require_gradient(const model::Values& input, const model::Values& output) const;

  py::object module_;
  LayerOptions options_;
  std::vector<Slot> slots_;
  bool is_training_ = true;
};

}  // namespace trireme::python
