// Finds tensors by name in safetensors files of other programs.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/checkpoint/manifest.h"

#include <filesystem>
#include <map>
#include <string>

namespace trireme::checkpoint {

/// Where the tensors of one or several files are. Their digests are not known.
struct TensorSet {
  std::filesystem::path folder;          ///< folder of the files
  std::map<std::string, Entry> tensors;  ///< by name
};

/// The tensors of a file, or of a folder as Hugging Face's libraries write it: `model.safetensors`,
/// or several files that `model.safetensors.index.json` names. Reads the files' headers alone.
/// Throws InputError if a file is missing or is not a safetensors file: a header that does not fit,
/// a type of unknown size, bytes that do not match the sizes, are outside the file, or belong to
/// two tensors or to none.
TensorSet find_tensors(const std::filesystem::path& place);

}  // namespace trireme::checkpoint
