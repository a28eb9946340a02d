// SPDX-License-Identifier: Apache-2.0
#include "trireme/io/usage.h"

#include "trireme/core/text.h"
#include "trireme/core/visible.h"

#include <algorithm>

namespace trireme::io {
namespace {

/// What is wrong with the unparsed arguments: an option that does not exist, else one too many.
std::string unread_text(const Misuse& misuse) {
  const auto option =
      std::find_if(misuse.unread.begin(), misuse.unread.end(),
                   [](const std::string& argument) { return argument.starts_with("-"); });
  if (option == misuse.unread.end())
    return concat("unexpected argument '", misuse.unread.front(), "'");
  const std::string name = option->substr(0, option->find('='));
  return concat("there is no option ", name, did_you_mean(name, misuse.options));
}

}  // namespace

std::string to_text(const Misuse& misuse) {
  return concat("trireme: ", visible(misuse.unread.empty() ? misuse.message : unread_text(misuse)),
                "\nRun ", misuse.command, " --help for more information.\n");
}

}  // namespace trireme::io
