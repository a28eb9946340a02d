// SPDX-License-Identifier: Apache-2.0
#include "trireme/config/job_notes.h"

#include "trireme/core/text.h"
#include "trireme/io/sizes.h"

#include <array>
#include <cstdio>

namespace trireme::config {

std::vector<std::string> job_notes(const JobSpec& job) {
  std::vector<std::string> notes;
  const int warmup = job.train.schedule.warmup_steps, steps = job.train.steps;
  if (warmup > steps) {
    std::array<char, 16> percent{};
    std::snprintf(percent.data(), percent.size(), "%.3g", 100.0 * steps / warmup);
    notes.push_back(concat("train.schedule.warmup_steps is ", warmup, ", but train.steps is ",
                           steps, ": the learning rate rises to the end, to ", percent.data(),
                           " % of train.optimizer.learning_rate"));
  }
  const auto memory = job.document.find("memory");
  for (const char* const key : {"device_budget", "host_budget", "disk_budget"}) {
    const auto node = memory ? memory->find(key) : std::nullopt;
    if (!node || node->kind() != io::Node::Kind::kScalar) continue;
    const std::string hint = io::forgotten_unit(node->text());
    if (!hint.empty()) notes.push_back(concat("memory.", key, " is ", node->text(), hint));
  }
  return notes;
}

}  // namespace trireme::config
