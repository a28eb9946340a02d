// What a command says of a command line that it cannot read.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace trireme::io {

/// A command line that was not read: what the parser says, the command ("trireme train") with its
/// options ("--set", "-o"), and the arguments that nothing took.
struct Misuse {
  std::string message, command;
  std::vector<std::string> options, unread;
};

/// "trireme: there is no option --temprature (did you mean '--temperature'?)" and where help
/// is, in lines.
std::string to_text(const Misuse& misuse);

/// The same of a CLI::App and its error.
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
