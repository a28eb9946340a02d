// SPDX-License-Identifier: Apache-2.0
#include "trireme/io/pieces.h"

#include "descriptor.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/io/file.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <utility>

namespace trireme::io {

struct OutputFile::Impl {
  std::filesystem::path file;
  Descriptor out;
  Bytes size;
};

OutputFile::OutputFile(std::filesystem::path file) {
  const int number = ::open(file.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (number < 0) fail_write(file, errno);
  impl_.reset(new Impl{std::move(file), Descriptor(number), Bytes(0)});
}

OutputFile::~OutputFile() = default;
OutputFile::OutputFile(OutputFile&&) noexcept = default;

void OutputFile::append(std::span<const std::byte> piece) {
  append({reinterpret_cast<const char*>(piece.data()), piece.size()});
}

void OutputFile::append(std::string_view piece) {
  write_all(impl_->out, piece, impl_->file);
  impl_->size += Bytes(static_cast<std::int64_t>(piece.size()));
}

void OutputFile::flush() {
  if (::fdatasync(impl_->out.number()) != 0) fail_write(impl_->file, errno);
}

void OutputFile::finish() {
  if (::fsync(impl_->out.number()) != 0 || !impl_->out.close()) fail_write(impl_->file, errno);
}

const std::filesystem::path& OutputFile::path() const {
  return impl_->file;
}

Bytes OutputFile::size() const {
  return impl_->size;
}

struct InputFile::Impl {
  std::filesystem::path file;
  Descriptor in;
};

InputFile::InputFile(std::filesystem::path file) {
  const int number = open_regular(file);
  impl_.reset(new Impl{std::move(file), Descriptor(number)});
}

InputFile::~InputFile() = default;
InputFile::InputFile(InputFile&&) noexcept = default;

Bytes InputFile::size() const {
  struct stat status {};
  if (::fstat(impl_->in.number(), &status) != 0) fail_read(impl_->file, errno);
  return Bytes(status.st_size);
}

void InputFile::read(std::span<std::byte> into, std::int64_t offset) const {
  while (!into.empty()) {
    const ssize_t count = ::pread(impl_->in.number(), into.data(), into.size(), offset);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_read(impl_->file, errno);
    if (count == 0)
      throw InputError(concat(impl_->file.string(), ": ends at byte ", size().count(),
                              ", must go on for ", into.size(), " bytes after byte ", offset));
    into = into.subspan(static_cast<std::size_t>(count));
    offset += count;
  }
}

void flush_file(const std::filesystem::path& file) {
  const Descriptor opened(::open(file.c_str(), O_RDONLY | O_CLOEXEC));
  if (!opened.is_open() || ::fsync(opened.number()) != 0) fail_write(file, errno);
  flush_folder(file.parent_path());
}

void publish_folder(const std::filesystem::path& draft, const std::filesystem::path& name) {
  flush_folder(draft);
  if (::rename(draft.c_str(), name.c_str()) != 0) fail_write(name, errno);
  flush_folder(name.parent_path());
}

}  // namespace trireme::io
