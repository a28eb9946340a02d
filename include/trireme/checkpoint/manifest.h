// What a checkpoint holds and where: the file that is written last.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/io/node.h"

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace trireme::checkpoint {

/// A tensor in a file of its checkpoint, row by row, little-endian.
struct Entry {
  std::string file;                 ///< in the checkpoint's folder
  std::string type;                 ///< as safetensors names it: "F32"
  std::vector<std::int64_t> sizes;  ///< none: a scalar
  Bytes offset;                     ///< of its first byte in the file
  Bytes size;
  std::string digest;  ///< of its bytes, trireme::digest(); empty: not known

  bool operator==(const Entry&) const = default;
};

struct Manifest {
  std::int64_t step = 0;  ///< steps done
  std::string data;       ///< digest of the data set
  int threads = 1;        ///< per rank, which last bits depend on
  /// Of each tied weight the parameter under whose name it was saved.
  std::map<std::string, std::string> ties;
  std::map<std::string, Entry> tensors;  ///< by name

  bool operator==(const Manifest&) const = default;
};

/// Adds what another rank wrote. Throws InputError for a name that both have.
void merge(Manifest& into, const Manifest& part);

/// `trireme-checkpoint/1`. read_manifest(to_json(m)) == m.
std::string to_json(const Manifest& manifest);
/// Throws InputError with file, line and key.
Manifest read_manifest(const io::Node& document);

}  // namespace trireme::checkpoint
