// SPDX-License-Identifier: Apache-2.0
#include "trireme/checkpoint/tensor_set.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/io/pieces.h"

#include <algorithm>
#include <limits>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace trireme::checkpoint {
namespace {

namespace fs = std::filesystem;

/// More than any header takes: the format's own limit.
constexpr std::int64_t kMostHead = 100'000'000;
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
constexpr const char *kOneFile = "model.safetensors", *kIndex = "model.safetensors.index.json";
constexpr std::string_view kMetadata = "__metadata__";

const std::map<std::string, std::int64_t>& bytes_of_types() {
  static const std::map<std::string, std::int64_t> bytes{
      {"BOOL", 1}, {"U8", 1},  {"I8", 1},  {"F8_E5M2", 1}, {"F8_E4M3", 1},
      {"U16", 2},  {"I16", 2}, {"F16", 2}, {"BF16", 2},    {"U32", 4},
      {"I32", 4},  {"F32", 4}, {"U64", 8}, {"I64", 8},     {"F64", 8}};
  return bytes;
}

/// The header of a file.
struct Head {
  io::Node tensors;         ///< by name
  std::int64_t begin = 0;   ///< where the tensors' bytes begin in the file
  std::int64_t length = 0;  ///< number of these bytes
};

Head head_of(const fs::path& file);
Entry entry_of(const io::Node& tensor, const std::string& file, const Head& head);
void add_file(TensorSet& set, const std::string& file);
/// Throws InputError unless every byte after the header belongs to exactly one tensor.
void require_covered(const Head& head, const fs::path& file);
/// Adds the files that an index names. Throws InputError if one lacks what the index says.
void add_files(TensorSet& set, const fs::path& index);

}  // namespace

TensorSet find_tensors(const fs::path& place) {
  std::error_code none;
  if (!fs::is_directory(place, none)) {
    TensorSet set{.folder = place.parent_path(), .tensors = {}};
    add_file(set, place.filename().string());
    return set;
  }
  TensorSet set{.folder = place, .tensors = {}};
  if (fs::exists(place / kOneFile, none)) {
    add_file(set, kOneFile);
  } else if (fs::exists(place / kIndex, none)) {
    add_files(set, place / kIndex);
  } else {
    throw InputError(concat(place.string(), ": has neither ", kOneFile, " nor ", kIndex,
                            ": name a folder of weights in safetensors, or one such file"));
  }
  return set;
}

namespace {

void add_files(TensorSet& set, const fs::path& index) {
  io::MapReader map(io::load(index));
  map.optional("metadata");
  const auto said = map.required("weight_map").entries();
  std::set<std::string> files;
  for (const auto& [name, file] : said) {
    if (file.text().find('/') != std::string::npos) file.fail("must be a file in the same folder");
    files.insert(file.text());
  }
  for (const std::string& file : files) add_file(set, file);
  for (const auto& [name, file] : said)
    if (const auto found = set.tensors.find(name);
        found == set.tensors.end() || found->second.file != file.text())
      file.fail(concat("is ", file.text(), ", which has no such tensor: the folder is not whole"));
}

void add_file(TensorSet& set, const std::string& file) {
  const Head head = head_of(set.folder / file);
  require_covered(head, set.folder / file);
  for (const auto& [name, tensor] : head.tensors.entries()) {
    if (name == kMetadata) continue;
    if (!set.tensors.emplace(name, entry_of(tensor, file, head)).second)
      tensor.fail("is in another file of this folder, too");
  }
}

Head head_of(const fs::path& file) {
  const auto refuse = [&](const std::string& why) -> InputError {
    return InputError(concat(file.string(), ": is not a safetensors file: ", why));
  };
  const io::InputFile in(file);
  std::uint64_t length = 0;
  constexpr std::int64_t kLength = sizeof(length);
  if (in.size().count() < kLength) throw refuse(concat("it has ", in.size().count(), " bytes"));
  in.read(std::as_writable_bytes(std::span(&length, 1)), 0);
  if (std::cmp_greater(length, std::min(kMostHead, in.size().count() - kLength)))
    throw refuse(concat("a head of ", length, " bytes in a file of ", in.size().count()));
  std::string text(length, ' ');
  in.read(std::as_writable_bytes(std::span(text)), kLength);
  const std::int64_t begin = kLength + static_cast<std::int64_t>(length);
  return {.tensors = io::parse(text, file.string()),
          .begin = begin,
          .length = in.size().count() - begin};
}

void require_covered(const Head& head, const fs::path& file) {
  struct Part {
    std::int64_t first, last;
    io::Node tensor;
  };
  std::vector<Part> parts;
  for (const auto& [name, tensor] : head.tensors.entries()) {
    if (name == kMetadata) continue;
    const Entry entry = entry_of(tensor, file.filename().string(), head);
    const std::int64_t first = entry.offset.count() - head.begin;
    parts.push_back({first, first + entry.size.count(), tensor});
  }
  std::stable_sort(parts.begin(), parts.end(), [](const Part& a, const Part& b) {
    return std::pair(a.first, a.last) < std::pair(b.first, b.last);
  });
  std::int64_t end = 0;
  for (const Part& part : parts) {
    if (part.first != end)
      part.tensor.fail(concat("begins at byte ", part.first, ", must begin at ", end,
                              part.first < end ? ", where the tensor before it ends: two tensors "
                                                 "cannot have the same bytes"
                                               : ": the bytes before it are no tensor's",
                              "; save the file again"));
    end = part.last;
  }
  if (end != head.length)
    throw InputError(concat(file.string(), ": is not a safetensors file: its tensors end at byte ",
                            end, ", but it has ", head.length, " after its head; save it again"));
}

Entry entry_of(const io::Node& tensor, const std::string& file, const Head& head) {
  io::MapReader map(tensor);
  Entry entry{.file = file,
              .type = map.required("dtype").text(),
              .sizes = {},
              .offset = {},
              .size = {},
              .digest = {}};
  const auto type = bytes_of_types().find(entry.type);
  if (type == bytes_of_types().end())
    tensor.fail(concat("has the type ", entry.type, ", whose size is not known here"));
  std::int64_t needed = type->second;
  for (const io::Node& size : map.required("shape").list()) {
    entry.sizes.push_back(size.integer(0, kMost));
    if (__builtin_mul_overflow(needed, entry.sizes.back(), &needed))
      size.fail("makes a tensor of more bytes than can be counted");
  }
  const io::Node offsets = map.required("data_offsets");
  map.finish();
  const std::vector<io::Node> ends = offsets.list();
  if (ends.size() != 2) offsets.fail("must be two: the first byte and the one after the last");
  const std::int64_t first = ends[0].integer(0, head.length);
  const std::int64_t last = ends[1].integer(first, head.length);
  if (last - first != needed)
    offsets.fail(concat("are ", last - first, " bytes, but type and shape make ", needed));
  entry.offset = Bytes(head.begin + first);
  entry.size = Bytes(needed);
  return entry;
}

}  // namespace
}  // namespace trireme::checkpoint
