// SPDX-License-Identifier: Apache-2.0
#include "trireme/checkpoint/background_files.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"

#include <chrono>
#include <new>
#include <utility>

namespace trireme::checkpoint {
namespace {

/// Room for growth: one part in kSlack.
constexpr std::size_t kSlack = 8;

}  // namespace

BackgroundFiles::~BackgroundFiles() {
  give_up();
}

void BackgroundFiles::give_up() {
  stops_ = true;
  if (writing_.valid()) writing_.wait();
}

void BackgroundFiles::begin_file(std::filesystem::path file, std::vector<Spec> tensors) {
  Bytes size;
  for (const Spec& tensor : tensors) size += tensor.size;
  try {
    make_room(bytes_.size() + static_cast<std::size_t>(size.count()));
  } catch (const std::bad_alloc&) {
    throw Error(concat(file.string(), ": host memory has no ", to_text(size),
                       " for a copy of what is saved; set checkpoint.background to false"));
  }
  files_.push_back({.path = std::move(file), .tensors = std::move(tensors)});
}

void BackgroundFiles::make_room(std::size_t needed) {
  if (needed <= bytes_.capacity()) return;
  // Free the old one first: two copies would be in memory for a moment.
  if (bytes_.empty()) bytes_ = std::vector<std::byte>();
  // Losses make the file of a rank a little longer with every save. Room reserved for that takes no
  // memory before it is written to.
  bytes_.reserve(needed + needed / kSlack);
}

Bytes BackgroundFiles::room() const {
  return Bytes(static_cast<std::int64_t>(bytes_.capacity()));
}

void BackgroundFiles::append(std::span<const std::byte> tensor) {
  bytes_.insert(bytes_.end(), tensor.begin(), tensor.end());
}

void BackgroundFiles::start() {
  writing_ = std::async(std::launch::async, [this] { return written(); });
}

bool BackgroundFiles::is_done() const {
  return writing_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
}

Manifest BackgroundFiles::finish() {
  writing_.wait();
  files_.clear();
  bytes_.clear();
  return writing_.get();
}

Manifest BackgroundFiles::written() const {
  Manifest all;
  std::span<const std::byte> rest(bytes_);
  for (const File& file : files_) {
    TensorFile out(file.path, file.tensors);
    for (const Spec& tensor : file.tensors) {
      if (stops_) throw Error(concat(file.path.string(), ": given up"));
      const auto size = static_cast<std::size_t>(tensor.size.count());
      out.append(rest.first(size));
      rest = rest.subspan(size);
    }
    merge(all, out.finish());
  }
  ensure(rest.empty(), "every byte has a tensor");
  return all;
}

}  // namespace trireme::checkpoint
