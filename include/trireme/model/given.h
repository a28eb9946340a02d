// Checks of layers' outputs before they are used: layers are written by users.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/model/layer.h"

#include <c10/util/Exception.h>

#include <string>

namespace trireme::model {

/// Throws InputError unless `output` is a valid forward output: one or several dense tensors of
/// real numbers; with a target, which the last layer has, one floating-point number, the loss.
void require_output(const Values& output, const Context& context);

/// "Float [2, 8], Long [2]".
std::string types_text(const Values& values);

/// The file that the layer's code came from; empty for layers built into the program.
std::string file_of(const Layer& layer);

/// Returns the result of `run`, a forward or backward of the layer. Adds the layer's name to an
/// InputError that it throws; a LibTorch error in a layer from a file becomes an InputError.
template <class Run>
auto in_layer(int number, const std::string& name, const Layer& layer, const Run& run) {
  const auto named = [&](const std::string& words) {
    const std::string file = file_of(layer);
    const bool is_told = file.empty() || words.find(file) != std::string::npos;
    return InputError(
        concat("layer ", number, " (", name, "): ", is_told ? "" : file + ": ", words));
  };
  try {
    return run();
  } catch (const InputError& error) {
    throw named(error.what());
  } catch (const c10::OutOfMemoryError&) {
    throw;
  } catch (const c10::Error& error) {
    if (file_of(layer).empty()) throw;
    throw named(error.what_without_backtrace());
  }
}

}  // namespace trireme::model
