// Makes foreign text (names in files, paths, messages of libraries) safe to print: it must neither
// control a terminal nor look like a line of our own.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <exception>
#include <string>
#include <string_view>

namespace trireme {

/// Length of the UTF-8 character at the beginning of `text`, 0 if there is none.
std::size_t utf8_size(std::string_view text);
bool is_utf8(std::string_view text);
/// The first character of a text in UTF-8; its first byte where there is none.
std::string_view first_character(std::string_view text);

/// The printable form of a character: control characters (C0, DEL, C1), line ends and those that
/// change the text direction become escapes such as `\n` or `\u001b`; a byte that is not UTF-8
/// becomes `\xff`; all others stay as they are.
std::string visible_character(std::string_view character);
/// Text in one line, all of its characters visible.
std::string visible(std::string_view text);
/// Whether visible() leaves the text unchanged, as a name must be.
bool is_visible(std::string_view text);

/// words_of() an error for printing: our own messages in one line, whatever names they contain, but
/// for lines that are indented (code of the caller's that an error names); those of libraries in
/// several where they have some, all but the first indented. For file system errors, the file and
/// the reason alone.
std::string shown_words(const std::exception& error);

}  // namespace trireme
