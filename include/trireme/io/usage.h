// Error messages for command lines that cannot be parsed.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme::io {

/// A rejected command line: the parser's message, the command ("trireme train") with its options
/// ("--set", "-o"), and the arguments that were not parsed.
struct Misuse {
  std::string message, command;
  std::vector<std::string> options, unread;
};

/// "trireme: there is no option --temprature (did you mean '--temperature'?)" and a line on where
/// to find help.
std::string to_text(const Misuse& misuse);

/// The same for a CLI::App and its error.
template <class App>
std::string usage_error(const App& app, std::string_view message) {
  Misuse misuse{.message = std::string(message), .command = app.get_name()};
  misuse.unread = app.remaining(/*recurse=*/true);
  const App* command = &app;
  const auto chosen = app.get_subcommands();
  if (!chosen.empty()) {
    command = chosen.front();
    misuse.command += " " + command->get_name();
  }
  for (const auto* const option : command->get_options()) {
    for (const std::string& name : option->get_lnames()) misuse.options.push_back("--" + name);
    for (const std::string& name : option->get_snames()) misuse.options.push_back("-" + name);
  }
  return to_text(misuse);
}

}  // namespace trireme::io
