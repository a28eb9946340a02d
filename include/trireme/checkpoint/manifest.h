// What a checkpoint holds and where: the file that is written last.
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

/// What an entry has only some numbers of, for other ranks have written the rest.
struct PartOf {
  std::string name;                 ///< of the whole tensor
  std::vector<std::int64_t> sizes;  ///< of it
  std::int64_t begin = 0;           ///< the first of its numbers that the entry has

  bool operator==(const PartOf&) const = default;
};

/// A tensor in a file of its checkpoint, row by row, little-endian; or numbers of one.
struct Entry {
  std::string file;                 ///< in the checkpoint's folder
  std::string type;                 ///< as safetensors names it: "F32"
  std::vector<std::int64_t> sizes;  ///< none: a scalar
  Bytes offset;                     ///< of its first byte in the file
  Bytes size;
  std::string digest;  ///< of its bytes, trireme::digest(); empty: not known
  std::optional<PartOf> part_of = std::nullopt;  ///< a part has one size, that of its numbers
  /// It holds what the model was built with, which no step has changed: infinities may be meant, as
  /// in a mask of attention. Written where there are some.
  bool is_constant = false;

  bool operator==(const Entry&) const = default;
};

struct Manifest {
  std::int64_t step = 0;  ///< steps done
  std::string data;       ///< digest of the data set
  std::string job;        ///< digest of the job's file; empty: not known (earlier versions)
  int threads = 1;        ///< per rank, which last bits depend on, as on the two below
  std::string device;     ///< as in the job; empty: not known
  std::string vectors;    ///< that LibTorch computes with on the CPU: "AVX2"; empty: not known
  /// Of each tied weight the parameter under whose name it was saved.
  std::map<std::string, std::string> ties;
  std::map<std::string, Entry> tensors;  ///< by name

  bool operator==(const Manifest&) const = default;
};

/// Adds what another rank wrote. Throws InputError for a name that both have.
void merge(Manifest& into, const Manifest& part);

/// A tensor with what makes it up: itself, or its parts in their order, by the names they have.
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
