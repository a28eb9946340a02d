// Printing: makes foreign text (names in files, paths, messages of libraries) safe for a terminal
// here, so that no caller can forget it. Also the standard descriptors.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/io/node.h"

#include <memory>
#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>

namespace trireme::io {

/// While it lives, characters written to `out` are made visible as by trireme::visible_character(),
/// except line ends and tabs, which may be our own: foreign text must be made visible() before it
/// is put into a line. Escapes are those of JSON, so that documents keep their meaning. May be used
/// by several threads.
class VisibleOutput {
 public:
  explicit VisibleOutput(std::ostream& out);
  ~VisibleOutput();
  VisibleOutput(const VisibleOutput&) = delete;
  VisibleOutput& operator=(const VisibleOutput&) = delete;

 private:
  std::ostream& out_;
  std::unique_ptr<std::streambuf> visible_;
  std::streambuf* const plain_;
};

/// A name, which will be printed: a scalar without control characters (is_visible()). Throws
/// InputError.
std::string name_in(const Node& node);

/// Writes our own control sequences, or output that is raw bytes: bypasses a VisibleOutput, if
/// there is one.
void write_as_is(std::ostream& out, std::string_view text);

/// Opens /dev/null as standard input, output and error where they are closed: else the next file
/// would get such a number, and receive whatever is printed. Must be the first call of a process.
void open_standard_descriptors();

}  // namespace trireme::io
