// Files that somebody has damaged: seeded changes of good ones.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <random>
#include <string>

namespace trireme::readers {

/// One to four changes of `text`, each at a random place: a flipped bit, another byte, a stretch
/// that is removed, repeated or swapped with another, an end that is cut off, or a word put in that
/// readers have stumbled over (numbers beyond every range, brackets, bytes that are no UTF-8).
inline std::string damaged(std::string text, std::mt19937& random) {
  static const std::string kWords[] = {"-1",
                                       "0",
                                       "1e400",
                                       "nan",
                                       ".inf",
                                       "null",
                                       "~",
                                       "true",
                                       "[",
                                       "]",
                                       "{",
                                       "}",
                                       "\"",
                                       "'",
                                       ": ",
                                       "- ",
                                       "\n",
                                       "\t",
                                       std::string(1, '\0'),
                                       "\xff",
                                       "\xc3\x28",
                                       "\x1b[2J",
                                       "18446744073709551616",
                                       "-9223372036854775808",
                                       "9223372036854775807",
                                       "1e-400",
                                       "&a ",
                                       "*a ",
                                       "!!binary ",
                                       "<<: ",
                                       "999999999999999999999999999999",
                                       "0x10",
                                       "1_000",
                                       "\xef\xbb\xbf"};
  const auto below = [&](std::size_t end) {
    return std::uniform_int_distribution<std::size_t>(0, end - 1)(random);
  };
  for (std::size_t change = 1 + below(4); change > 0; --change) {
    if (text.empty()) return text;
    const std::size_t at = below(text.size());
    const std::size_t length = 1 + below(std::min<std::size_t>(text.size() - at, 40));
    switch (below(7)) {
      case 0:
        text[at] = static_cast<char>(text[at] ^ (1 << below(8)));
        break;
      case 1:
        text[at] = static_cast<char>(below(256));
        break;
      case 2:
        text.erase(at, length);
        break;
      case 3:
        text.insert(at, text.substr(at, length));
        break;
      case 4: {
        const std::string moved = text.substr(at, length);
        text.erase(at, length);
        text.insert(text.empty() ? 0 : below(text.size()), moved);
        break;
      }
      case 5:
        if (below(8) == 0) text.resize(at);
        break;
      default:
        text.insert(at, kWords[below(std::size(kWords))]);
    }
  }
  return text;
}

}  // namespace trireme::readers
