// SPDX-License-Identifier: Apache-2.0
#include "trireme/io/terminal.h"

#include "document.h"

#include "trireme/core/text.h"
#include "trireme/core/visible.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <mutex>
#include <string>

namespace trireme::io {
namespace {

/// Characters may arrive in pieces: an incomplete one waits for its rest.
class VisibleBuffer final : public std::streambuf {
 public:
  explicit VisibleBuffer(std::streambuf& plain) : plain_(plain) {}
  ~VisibleBuffer() override { put_rest(); }
  VisibleBuffer(const VisibleBuffer&) = delete;
  VisibleBuffer& operator=(const VisibleBuffer&) = delete;

  bool pass(std::string_view text) {
    const std::lock_guard<std::mutex> lock(mutex_);
    put_rest();
    return put(text);
  }

 protected:
  int_type overflow(int_type c) override {
    if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
    const char character = traits_type::to_char_type(c);
    return xsputn(&character, 1) == 1 ? c : traits_type::eof();
  }

  std::streamsize xsputn(const char* text, std::streamsize count) override {
    const std::lock_guard<std::mutex> lock(mutex_);
    waiting_.append(text, static_cast<std::size_t>(count));
    std::string visible;
    std::string_view rest = waiting_;
    while (!rest.empty() && !may_go_on(rest)) {
      const std::string_view character = first_character(rest);
      visible += character == "\n" || character == "\t" ? std::string(character)
                                                        : visible_character(character);
      rest.remove_prefix(character.size());
    }
    waiting_ = std::string(rest);
    return put(visible) ? count : 0;
  }

  int sync() override {
    const std::lock_guard<std::mutex> lock(mutex_);
    return plain_.pubsync();
  }

 private:
  /// Whether more bytes could complete the incomplete character.
  static bool may_go_on(std::string_view text) {
    constexpr std::size_t kLongest = 4;
    if (utf8_size(text) > 0 || text.size() >= kLongest) return false;
    for (const char* const filler : {"\x80\x80\x80", "\xBF\xBF\xBF"})
      if (utf8_size(std::string(text) + filler) > text.size()) return true;
    return false;
  }

  bool put(std::string_view text) {
    const auto size = static_cast<std::streamsize>(text.size());
    return plain_.sputn(text.data(), size) == size;
  }

  void put_rest() {
    put(visible(waiting_));
    waiting_.clear();
  }

  std::streambuf& plain_;
  std::mutex mutex_;
  std::string waiting_;
};

}  // namespace

VisibleOutput::VisibleOutput(std::ostream& out)
    : out_(out),
      visible_(std::make_unique<VisibleBuffer>(*out.rdbuf())),
      plain_(out.rdbuf(visible_.get())) {}

VisibleOutput::~VisibleOutput() {
  out_.flush();
  visible_.reset();
  out_.rdbuf(plain_);
}

std::string name_in(const Node& node) {
  std::string name = node.text();
  if (!is_visible(name))
    node.fail(
        concat("holds a control character (\"", shown(name), "\"), must be a name without any"));
  return name;
}

void write_as_is(std::ostream& out, std::string_view text) {
  auto* const visible = dynamic_cast<VisibleBuffer*>(out.rdbuf());
  if (visible == nullptr) {
    out << text;
  } else if (!visible->pass(text)) {
    out.setstate(std::ios::badbit);
  }
}

void open_standard_descriptors() {
  for (const int number : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    // open() returns the lowest free number, which is this one.
    if (::fcntl(number, F_GETFD) < 0 && errno == EBADF) (void)::open("/dev/null", O_RDWR);
}

}  // namespace trireme::io
