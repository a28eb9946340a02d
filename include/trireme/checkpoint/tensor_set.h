// Tensors that somebody else has written: safetensors files, found by name.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/checkpoint/manifest.h"

#include <filesystem>
#include <map>
#include <string>

namespace trireme::checkpoint {

/// Where the tensors of one or several files are. Nothing is known of their digests.
struct TensorSet {
  std::filesystem::path folder;          ///< that the files are in
  std::map<std::string, Entry> tensors;  ///< by name
};

/// Of a file, or of a folder as Hugging Face's libraries write it: `model.safetensors`, or several
/// files that `model.safetensors.index.json` names. Reads the files' heads alone. Throws InputError
/// where a file is missing or is no safetensors file: a head that does not fit, a type of unknown
/// size, bytes that are not those of the sizes, are not in the file,
/// belong to two tensors, or to none.
TensorSet find_tensors(const std::filesystem::path& place);

}  // namespace trireme::checkpoint
