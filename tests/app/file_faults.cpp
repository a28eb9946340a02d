// Preloaded before a program: the n-th call on files under a folder fails, or kills the process
// there, as a crash or a full disk would. Calls are counted over all threads: opening, reading,
// writing, flushing, renaming, linking, removing, making folders.
//
//   FILE_FAULTS_UNDER  the folder, an absolute path
//   FILE_FAULTS_AT     which call, from 1; 0 or unset: none
//   FILE_FAULTS_HOW    "kill", or the error's number (28: no space left, 5: input/output error)
//   FILE_FAULTS_COUNT  a file that a program which ends by itself writes the number of calls to
//
// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

struct Faults {
  const char* under = std::getenv("FILE_FAULTS_UNDER");
  long at = std::getenv("FILE_FAULTS_AT") != nullptr ? std::atol(std::getenv("FILE_FAULTS_AT")) : 0;
  const char* how = std::getenv("FILE_FAULTS_HOW");
  const char* count = std::getenv("FILE_FAULTS_COUNT");
};

const Faults& faults() {
  static const Faults read;
  return read;
}

std::atomic<long> calls{0};

/// Whether this is the call that fails; never returns where it kills.
bool fails() {
  if (++calls != faults().at || faults().how == nullptr) return false;
  if (std::strcmp(faults().how, "kill") == 0) ::kill(::getpid(), SIGKILL);
  errno = std::atoi(faults().how);
  return true;
}

bool is_under(const char* path) {
  const char* const folder = faults().under;
  return folder != nullptr && path != nullptr &&
         std::strncmp(path, folder, std::strlen(folder)) == 0;
}

bool is_under(int descriptor) {
  if (faults().under == nullptr) return false;
  char name[64], path[PATH_MAX];
  std::snprintf(name, sizeof name, "/proc/self/fd/%d", descriptor);
  const ssize_t length = ::readlink(name, path, sizeof path - 1);
  if (length < 0) return false;
  path[length] = '\0';
  return is_under(path);
}

template <class Function>
Function* real(const char* name) {
  return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}

__attribute__((destructor)) void write_count() {
  if (faults().count == nullptr) return;
  if (std::FILE* const out = std::fopen(faults().count, "w")) {
    std::fprintf(out, "%ld\n", calls.load());
    std::fclose(out);
  }
}

}  // namespace

// A call of the C library by the same name and arguments, unless it is the one that fails.
#define FAULTY(result, name, where, parameters, arguments)          \
  extern "C" result name parameters {                               \
    static auto* const call = real<result parameters>(#name);       \
    if (is_under(where) && fails()) return static_cast<result>(-1); \
    return call arguments;                                          \
  }

FAULTY(ssize_t, read, descriptor, (int descriptor, void* bytes, size_t size),
       (descriptor, bytes, size))
FAULTY(ssize_t, pread, descriptor, (int descriptor, void* bytes, size_t size, off_t at),
       (descriptor, bytes, size, at))
FAULTY(ssize_t, pread64, descriptor, (int descriptor, void* bytes, size_t size, off64_t at),
       (descriptor, bytes, size, at))
FAULTY(ssize_t, write, descriptor, (int descriptor, const void* bytes, size_t size),
       (descriptor, bytes, size))
FAULTY(ssize_t, pwrite, descriptor, (int descriptor, const void* bytes, size_t size, off_t at),
       (descriptor, bytes, size, at))
FAULTY(ssize_t, pwrite64, descriptor, (int descriptor, const void* bytes, size_t size, off64_t at),
       (descriptor, bytes, size, at))
FAULTY(ssize_t, writev, descriptor, (int descriptor, const iovec* parts, int count),
       (descriptor, parts, count))
FAULTY(int, fsync, descriptor, (int descriptor), (descriptor))
FAULTY(int, fdatasync, descriptor, (int descriptor), (descriptor))
FAULTY(int, ftruncate, descriptor, (int descriptor, off_t size), (descriptor, size))
FAULTY(int, ftruncate64, descriptor, (int descriptor, off64_t size), (descriptor, size))
FAULTY(int, rename, to, (const char* from, const char* to), (from, to))
FAULTY(int, link, to, (const char* from, const char* to), (from, to))
FAULTY(int, unlink, path, (const char* path), (path))
FAULTY(int, rmdir, path, (const char* path), (path))
FAULTY(int, remove, path, (const char* path), (path))
FAULTY(int, mkdir, path, (const char* path, mode_t mode), (path, mode))

#define FAULTY_OPEN(name)                                              \
  extern "C" int name(const char* path, int flags, ...) {              \
    static auto* const call = real<int(const char*, int, ...)>(#name); \
    va_list more;                                                      \
    va_start(more, flags);                                             \
    const mode_t mode = va_arg(more, mode_t);                          \
    va_end(more);                                                      \
    if (is_under(path) && fails()) return -1;                          \
    return call(path, flags, mode);                                    \
  }
FAULTY_OPEN(open)
FAULTY_OPEN(open64)

#define FAULTY_FOPEN(name)                                                       \
  extern "C" std::FILE* name(const char* path, const char* mode) {               \
    static auto* const call = real<std::FILE*(const char*, const char*)>(#name); \
    if (is_under(path) && fails()) return nullptr;                               \
    return call(path, mode);                                                     \
  }
FAULTY_FOPEN(fopen)
FAULTY_FOPEN(fopen64)
