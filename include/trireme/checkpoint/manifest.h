// The manifest of a checkpoint: which tensors it has and where. It is written last.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/core/units.h"
#include "trireme/io/node.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace trireme::checkpoint {

/// The whole tensor that an entry is a part of; other ranks have written the rest.
struct PartOf {
  std::string name;                 ///< name of the whole tensor
  std::vector<std::int64_t> sizes;  ///< sizes of the whole tensor
  std::int64_t begin = 0;           ///< index in it of the entry's first number

  bool operator==(const PartOf&) const = default;
};

/// A tensor in a file of its checkpoint, row-major, little-endian; or a part of one.
struct Entry {
  std::string file;                 ///< in the checkpoint's folder
  std::string type;                 ///< as safetensors names it: "F32"
  std::vector<std::int64_t> sizes;  ///< empty: a scalar
  Bytes offset;                     ///< place of its first byte in the file
  Bytes size;
  std::string digest;  ///< trireme::digest() of its bytes; empty: not known
  std::optional<PartOf> part_of = std::nullopt;  ///< a part has one size, that of its numbers
  /// It has values that the model was built with and no step has changed: infinities are allowed,
  /// as in an attention mask. Set only if there are some.
  bool is_constant = false;

  bool operator==(const Entry&) const = default;
};

struct Manifest {
  std::int64_t step = 0;  ///< steps done
  std::string data;       ///< digest of the data set
  std::string job;        ///< digest of the job's file; empty: not known (earlier versions)
  int threads = 1;        ///< per rank; last bits depend on it, as on the two below
  std::string device;     ///< as in the job; empty: not known
  std::string vectors;    ///< CPU vector instructions of LibTorch: "AVX2"; empty: not known
  /// By tied weight: the parameter under whose name it was saved.
  std::map<std::string, std::string> ties;
  std::map<std::string, Entry> tensors;  ///< by name

  bool operator==(const Manifest&) const = default;
};

/// Adds what another rank wrote. Throws InputError for a name that both have.
void merge(Manifest& into, const Manifest& part);

/// A whole tensor and the names of its entries: itself, or its parts in their order.
struct Joined {
  std::string type;
  std::vector<std::int64_t> sizes;
  std::vector<std::string> entries;
  bool is_constant = false;  ///< as in Entry
};
/// By the whole tensors' names. Throws InputError where parts do not make a whole.
std::map<std::string, Joined> joined(const Manifest& manifest);

/// `trireme-checkpoint/1`, with a digest of its own. read_manifest(to_json(m)) == m.
std::string to_json(const Manifest& manifest);
/// Throws InputError with file, line and key; also where the digest, if there is one, is not that
/// of what was read.
Manifest read_manifest(const io::Node& document);

}  // namespace trireme::checkpoint
