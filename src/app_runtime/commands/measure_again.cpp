// SPDX-License-Identifier: Apache-2.0
#include "commands/measure_again.h"

#include "trireme/core/text.h"
#include "trireme/core/visible.h"
#include "trireme/prepare/measured_chain.h"

#include <cctype>
#include <optional>
#include <string_view>

namespace trireme::app {
namespace {

/// The word quoted for a shell, if necessary.
std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain = "-_=.,:/+@%";
  bool is_plain = !word.empty();
  std::string inside;
  for (const char letter : word) {
    is_plain = is_plain && (std::isalnum(static_cast<unsigned char>(letter)) != 0 ||
                            kPlain.find(letter) != std::string_view::npos);
    inside += letter == '\'' ? std::string("'\\''") : std::string(1, letter);
  }
  return is_plain ? word : concat('\'', inside, '\'');
}

}  // namespace

std::string measure_again(const GivenJob& run, const config::JobSpec& as_read,
                          const config::JobSpec& settled, int stages, bool both) {
  if (run.text || !run.model.empty()) {
    const std::string folder = prepare::profiles_folder(settled).string();
    return concat("`rm -r ", visible(quoted(folder)), "` and the same run");
  }
  std::string command = concat("trireme profile --fresh ", quoted(run.file));
  const auto set = [&](const std::string& setting) { command += " --set " + quoted(setting); };
  for (const std::string& setting : run.settings) set(setting);
  if (!as_read.train.micro_batch && settled.train.micro_batch)
    set(concat("train.micro_batch=", *settled.train.micro_batch));
  const auto choose = [&](const char* key, const std::optional<int>& open,
                          const std::optional<int>& chosen) {
    if (!open && chosen.value_or(1) > 1) set(concat(key, '=', *chosen));
  };
  choose("pipeline.stages", as_read.pipeline.stages, stages);
  choose("pipeline.replicas", as_read.pipeline.replicas, settled.pipeline.replicas);
  return concat('`', visible(command), '`', both ? " and again with --set memory.tapes=lean" : "");
}

}  // namespace trireme::app
