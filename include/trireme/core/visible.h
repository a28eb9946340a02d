// Somebody else's text (names in files, paths, words of libraries) as it may be shown to people: it
// must neither steer a terminal nor look like a line of ours.
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

/// A character as it may be shown: control characters (C0, DEL, C1), line ends, and those that turn
/// the direction of what follows them, as `\n` or `\u001b`; a byte that is no UTF-8 as `\xff`; all
/// else as it is.
std::string visible_character(std::string_view character);
/// Text in one line, all of its characters visible.
std::string visible(std::string_view text);
/// Whether visible() leaves it as it is, as a name must be.
bool is_visible(std::string_view text);

/// The words_of() an error as they are shown to people: ours in one line, whatever names stand in
/// them; those of libraries in several where they have some, each but the first indented. Of the
/// file system's errors, the file and the reason alone.
std::string shown_words(const std::exception& error);

}  // namespace trireme
