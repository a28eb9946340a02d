// SPDX-License-Identifier: Apache-2.0
#include "trireme/checkpoint/tensor_file.h"

#include "trireme/checkpoint/numbers.h"
#include "trireme/core/digest.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/io/json.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

namespace trireme::checkpoint {
namespace {

static_assert(std::endian::native == std::endian::little, "tensors are written as they are");

/// Bytes handed to the system before they are flushed, whatever tensors they are of: it never has
/// much to write at once, and other ranks, which wait for the last flush, too, do not wait long.
constexpr std::size_t kFlushed = std::size_t{64} << 20;
/// Headers are padded to this, so that tensors of any type can be memory-mapped.
constexpr std::size_t kAlignment = 8;

std::string head_of(const std::vector<Spec>& tensors) {
  io::Json entries{{"__metadata__", {{"format", "pt"}}}};
  std::int64_t begin = 0;
  for (const Spec& tensor : tensors) {
    const std::int64_t end = begin + tensor.size.count();
    entries[tensor.name] = {
        {"dtype", tensor.type}, {"shape", tensor.sizes}, {"data_offsets", {begin, end}}};
    begin = end;
  }
  std::string head = io::one_line(entries);
  head.append((kAlignment - head.size() % kAlignment) % kAlignment, ' ');
  return head;
}

/// Whether it is allowed neither in a checkpoint nor in weights.
bool is_forbidden(const std::optional<NoNumber>& found, bool is_constant) {
  return found && !(found->is_infinite() && is_constant);
}

/// Throws InputError: what was read is not what was written.
[[noreturn]] void fail_digest(const std::filesystem::path& folder, const std::string& name,
                              const Entry& entry);

}  // namespace

TensorFile::TensorFile(std::filesystem::path file, std::vector<Spec> tensors)
    : out_(std::move(file)), tensors_(std::move(tensors)) {
  const std::string head = head_of(tensors_);
  const std::uint64_t length = head.size();
  write(std::as_bytes(std::span(&length, 1)));
  write(std::as_bytes(std::span(head)));
}

void TensorFile::append(std::span<const std::byte> tensor) {
  const Spec& spec = tensors_.at(next_++);
  ensure(std::cmp_equal(tensor.size(), spec.size.count()), "a tensor has the bytes of its sizes");
  const std::optional<NoNumber> found = find_no_number(spec.type, tensor);
  if (is_forbidden(found, spec.is_constant))
    throw NoNumberError(out_.path().string(), spec.name, *found);
  const Entry entry{.file = out_.path().filename().string(),
                    .type = spec.type,
                    .sizes = spec.sizes,
                    .offset = out_.size(),
                    .size = spec.size,
                    .digest = digest(tensor.data(), tensor.size()),
                    .part_of = spec.part_of,
                    .is_constant = found.has_value()};
  merge(written_, {.tensors = {{spec.name, entry}}});
  write(tensor);
}

Manifest TensorFile::finish() {
  ensure(next_ == tensors_.size(), "every tensor was written");
  out_.finish();
  return std::move(written_);
}

Bytes TensorFile::unflushed() const {
  return Bytes(static_cast<std::int64_t>(unflushed_));
}

void TensorFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const auto piece = bytes.first(std::min(kFlushed - unflushed_, bytes.size()));
    out_.append(piece);
    unflushed_ += piece.size();
    if (unflushed_ == kFlushed) {
      out_.flush();
      unflushed_ = 0;
    }
    bytes = bytes.subspan(piece.size());
  }
}

void TensorFiles::begin_file(std::filesystem::path file, std::vector<Spec> tensors) {
  out_.emplace(std::move(file), std::move(tensors));
}

void TensorFiles::append(std::span<const std::byte> tensor) {
  out_.value().append(tensor);
}

Manifest TensorFiles::end_file() {
  Manifest tensors = out_.value().finish();
  out_.reset();
  return tensors;
}

void read_tensor(const std::filesystem::path& folder, const std::string& name, const Entry& entry,
                 std::span<std::byte> into) {
  ensure(std::cmp_equal(into.size(), entry.size.count()), "a tensor has the bytes of its sizes");
  io::InputFile(folder / entry.file).read(into, entry.offset.count());
  if (!entry.digest.empty() && digest(into.data(), into.size()) != entry.digest)
    fail_digest(folder, name, entry);
  const std::optional<NoNumber> found = find_no_number(entry.type, into);
  if (!is_forbidden(found, entry.is_constant)) return;
  throw InputError(concat(
      (folder / entry.file).string(), ": tensor '", name, "' holds ", found->text(),
      entry.digest.empty() ? ", must hold only finite numbers: take other weights"
                           : concat(": the run had diverged when it was saved; take an earlier "
                                    "checkpoint (--step, or remove ",
                                    folder.string(), " to go on from the one before it)")));
}

namespace {

void fail_digest(const std::filesystem::path& folder, const std::string& name, const Entry& entry) {
  throw InputError(concat(
      (folder / entry.file).string(), ": tensor '", name,
      "' is not what was written: the file is damaged",
      entry.file.ends_with(kFrozenEnding)
          ? ", and so are other checkpoints, which share it: remove none of "
            "them, since trained weights are in other files; a run that goes "
            "on reads frozen weights from its model.weights again if these "
            "are unchanged"
          : concat("; remove ", folder.string(), " to go on from the checkpoint before it")));
}

}  // namespace

}  // namespace trireme::checkpoint
