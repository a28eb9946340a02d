// SPDX-License-Identifier: Apache-2.0
#include "mapped_file.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/io/file.h"

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <string_view>
#include <system_error>
#include <utility>

namespace trireme::data {
namespace {

[[noreturn]] void fail(const std::filesystem::path& file, std::string_view what, int code) {
  if (code == ENOMEM) throw std::bad_alloc();  // says nothing about the file
  throw InputError(concat(file.string(), ": ", what, ": ", std::generic_category().message(code)));
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& file) {
  const int descriptor = io::open_regular(file);
  struct stat status {};
  void* data = MAP_FAILED;
  const bool has_size = ::fstat(descriptor, &status) == 0;
  if (has_size && status.st_size > 0) {
    size_ = static_cast<std::size_t>(status.st_size);
    data = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, descriptor, 0);
  }
  const int code = errno;
  ::close(descriptor);  // the mapping keeps the file
  if (has_size && status.st_size == 0)
    throw InputError(concat(file.string(), ": the file is empty"));
  if (data == MAP_FAILED) fail(file, "cannot be mapped", code);
  data_ = static_cast<const std::byte*>(data);
}

MappedFile::~MappedFile() {
  // mmap returns a mutable address; nothing is written through this one.
  if (data_ != nullptr) ::munmap(const_cast<std::byte*>(data_), size_);
}

void MappedFile::let_go() const {
  // Only advice: a kernel may ignore it and keep the pages.
  if (data_ != nullptr) ::madvise(const_cast<std::byte*>(data_), size_, MADV_DONTNEED);
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

}  // namespace trireme::data
