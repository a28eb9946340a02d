// Chain and plan files for tests of the commands that plan.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "support/command.h"

#include <nlohmann/json.hpp>

#include <set>
#include <string>

namespace trireme {

inline const std::string kTrireme = TRIREME_BINARY;

/// Four layers with f = 2, 3, 1, 4 and b = 3, 5, 2, 6, outputs of 2, 1, 2, 1 bytes after an input
/// of one, tapes of 4, 3, 5, 2; the loss is a layer of its own, without time, tape or output. For
/// this chain the code that Beaumont et al. published with RR-9302 (2019), in the form in which its
/// authors offered it to PyTorch, was run at every budget: the times in the tests are its results.
inline std::string chain_a_text() {
  return "format: trireme-chain/1\n"
         "name: chain A\n"
         "input_bytes: 1\n"
         "layers:\n"
         "  - {name: a, forward_s: 2, backward_s: 3, output_bytes: 2, tape_bytes: 4,"
         " backward_transient_bytes: 1}\n"
         "  - {name: b, forward_s: 3, backward_s: 5, output_bytes: 1, tape_bytes: 3,"
         " backward_transient_bytes: 2}\n"
         "  - {name: c, forward_s: 1, backward_s: 2, output_bytes: 2, tape_bytes: 5,"
         " backward_transient_bytes: 1}\n"
         "  - {name: d, forward_s: 4, backward_s: 6, output_bytes: 1, tape_bytes: 2,"
         " backward_transient_bytes: 2}\n"
         "  - {name: loss, forward_s: 0, backward_s: 0, output_bytes: 0, tape_bytes: 0,"
         " backward_transient_bytes: 1}\n";
}

/// The text with one part of it replaced by another.
inline std::string replaced(std::string text, const std::string& part, const std::string& by) {
  const std::size_t at = text.find(part);
  return at == std::string::npos ? "there is no " + part : text.replace(at, part.size(), by);
}

/// A folder with chain A and a plan for it within 14 bytes.
struct PlanFolder {
  TemporaryFolder folder;
  std::string chain = folder.file("chain.yaml", chain_a_text());

  std::string path(const std::string& name) const { return (folder.path() / name).string(); }
  CommandResult plan(const std::string& options) const {
    return run_command(kTrireme + " plan --chain " + chain + " " + options);
  }
  double step_of(const std::string& options) const {
    return nlohmann::json::parse(plan(options + " --json").out)["predicted"]["step_s"];
  }
  std::string make_plan() const {
    const std::string file = path("plan.json");
    plan("--memory 14 --solver rotor -o " + file);
    return file;
  }
  std::set<std::string> files() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path()))
      names.insert(entry.path().filename().string());
    return names;
  }
};

}  // namespace trireme
