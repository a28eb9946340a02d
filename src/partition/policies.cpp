// The policies by name.
// SPDX-License-Identifier: Apache-2.0
#include "stage_policy.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/program/generate.h"

#include <algorithm>
#include <charconv>

namespace trireme::partition {
namespace {

using program::Op;

program::StageProgram uniform(int first, int last, int size);
program::StageProgram block(int first, int last, int size);
int read_size(const std::string& name, const std::string& argument);

}  // namespace

const std::vector<std::string>& joint_solver_names() {
  static const std::vector<std::string> kNames{"joint", "madpipe", "adapipe", "uniform", "block"};
  return kNames;
}

std::unique_ptr<StagePolicy> policy_named(const Question& question, const std::string& name) {
  const std::string head = name.substr(0, name.find(' '));
  // madpipe decides who has which stages; their programs are joint's.
  if (name == "joint" || name == "madpipe" || name == "rotor_free")
    return table_policy(question, true);
  if (name == "rotor") return table_policy(question, false);
  if (name == "adapipe") return per_layer_policy(question.chain);
  if (name == "keep_all") return fixed_policy(question.chain, program::keep_all);
  if (name == "recompute_all") return fixed_policy(question.chain, program::recompute_all);
  if (name == "offload") return offload_policy(question.chain);
  if (head == "uniform" || head == "block") {
    const int size = name == head ? 2 : read_size(name, name.substr(head.size() + 1));
    const auto maker = head == "block" ? block : uniform;
    return fixed_policy(question.chain,
                        [maker, size](int first, int last) { return maker(first, last, size); });
  }
  std::vector<std::string> known = solve::solver_names();
  if (std::find(known.begin(), known.end(), head) == known.end()) {
    known.insert(known.end(), joint_solver_names().begin(), joint_solver_names().end());
    known.push_back("auto");
    throw InputError(concat("no solver is called '", name, "'", did_you_mean(head, known),
                            "; there are ", join(known, ", ")));
  }
  return solver_policy(question, name);
}

namespace {

// Groups of `size` layers keep their input alone and are run again as a whole.
program::StageProgram uniform(int first, int last, int size) {
  program::StageProgram program{.first_layer = first, .last_layer = last};
  for (int i = first; i <= last; ++i) {
    const bool begins = (i - first) % size == 0;
    program.forward.push_back({begins ? Op::kForwardKeep : Op::kForward, i});
  }
  for (int end = last; end >= first;) {
    const int begin = end - (end - first) % size;
    for (int i = begin; i <= end; ++i) program.backward.push_back({Op::kForwardTape, i});
    for (int i = end; i >= begin; --i) program.backward.push_back({Op::kBackward, i});
    end = begin - 1;
  }
  return program;
}

// The first `size` layers are run again one by one, the others kept.
program::StageProgram block(int first, int last, int size) {
  program::StageProgram program{.first_layer = first, .last_layer = last};
  for (int i = first; i <= last; ++i)
    program.forward.push_back({i < first + size ? Op::kForwardKeep : Op::kForwardTape, i});
  for (int i = last; i >= first; --i) {
    if (i < first + size) program.backward.push_back({Op::kForwardTape, i});
    program.backward.push_back({Op::kBackward, i});
  }
  return program;
}

int read_size(const std::string& name, const std::string& argument) {
  int size = 0;
  const char* const end = argument.data() + argument.size();
  const auto [stop, error] = std::from_chars(argument.data(), end, size);
  if (error != std::errc() || stop != end || size < 1)
    throw InputError(concat("solver '", name, "': expected a number of layers, e.g. '",
                            name.substr(0, name.find(' ')), " 4'"));
  return std::min(size, chain::kMaxLayers);
}

}  // namespace
}  // namespace trireme::partition
