// What is printed: somebody else's text (names in files, paths, messages of libraries) becomes text
// of a terminal here, so that no caller can forget it. And the descriptors to print to.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "trireme/io/node.h"

#include <memory>
#include <ostream>
#include <streambuf>
#include <string>
#include <string_view>

namespace trireme::io {

/// While it lives, what is written to `out` arrives with its characters visible, as
/// trireme::visible_character() says, but for line ends and tabs, which may be our own: a text of
/// others is made visible() before it is put into a line. Escapes are those of JSON, so that
/// documents keep their meaning. May be used by several threads.
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

/// A text that names something, and is printed: a scalar without control characters, which
/// is_visible(). Throws InputError.
std::string name_in(const Node& node);

/// Our own control sequences, and bytes that are the product: past a VisibleOutput, if there is
/// one.
void write_as_is(std::ostream& out, std::string_view text);

/// Opens /dev/null in the place of standard input, output and error where they are closed: the next
/// file would have their numbers, and be written to by whoever prints. First of all in a process.
void open_standard_descriptors();

}  // namespace trireme::io
