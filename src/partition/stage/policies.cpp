// The policies by name.
// SPDX-License-Identifier: Apache-2.0
#include "stage_policy.h"

#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/program/generate.h"

#include <algorithm>
#include <charconv>
#include <string_view>
#include <vector>

namespace trireme::partition {
namespace {

using program::Op;

program::StageProgram uniform(int first, int last, int size);
program::StageProgram block(int first, int last, int size);
int read_size(const std::string& name, const std::string& argument);

/// A policy that asks no single-stage solver.
struct NamedPolicy {
  std::string_view name;
  std::unique_ptr<StagePolicy> (*make)(const Question& question, int size);
  bool has_size = false;  ///< behind the name, 2 if not given
};
const std::vector<NamedPolicy>& policies();
/// Nothing for another name.
const NamedPolicy* find(const std::string& name);

std::string head_of(const std::string& name) {
  return name.substr(0, name.find(' '));
}

}  // namespace

const std::vector<std::string>& joint_solver_names() {
  static const std::vector<std::string> kNames{"joint", "madpipe", "adapipe", "uniform", "block"};
  return kNames;
}

bool is_joint(const std::string& solver) {
  const std::vector<std::string>& names = joint_solver_names();
  return std::find(names.begin(), names.end(), solver.substr(0, solver.find(' '))) != names.end();
}

const std::vector<std::string>& known_solvers() {
  static const std::vector<std::string> kNames = [] {
    std::vector<std::string> names = solve::solver_names();
    names.insert(names.end(), joint_solver_names().begin(), joint_solver_names().end());
    names.emplace_back("auto");
    return names;
  }();
  return kNames;
}

bool has_policy_of_its_own(const std::string& name) {
  return find(name) != nullptr;
}

std::unique_ptr<StagePolicy> policy_named(const Question& question, const std::string& name) {
  const std::string head = head_of(name);
  if (const NamedPolicy* const own = find(name))
    return own->make(question, name == head ? 2 : read_size(name, name.substr(head.size() + 1)));
  if (!solve::traits_of(name))
    throw InputError(concat("no solver is called '", name, "'", did_you_mean(head, known_solvers()),
                            "; there are ", join(known_solvers(), ", ")));
  return solver_policy(question, name);
}

namespace {

const std::vector<NamedPolicy>& policies() {
  const auto free_tables = [](const Question& question, int) {
    return table_policy(question, true);
  };
  static const std::vector<NamedPolicy> kPolicies{
      {"joint", free_tables},
      {"madpipe", free_tables},  // decides who has which stages; their programs are joint's
      {"rotor_free", free_tables},
      {"rotor", [](const Question& question, int) { return table_policy(question, false); }},
      {"adapipe", [](const Question& question, int) { return per_layer_policy(question.chain); }},
      {"keep_all", [](const Question& question,
                      int) { return fixed_policy(question.chain, program::keep_all); }},
      {"recompute_all", [](const Question& question,
                           int) { return fixed_policy(question.chain, program::recompute_all); }},
      {"offload", [](const Question& question, int) { return offload_policy(question.chain); }},
      {"uniform",
       [](const Question& question, int size) {
         return fixed_policy(question.chain,
                             [size](int first, int last) { return uniform(first, last, size); });
       },
       true},
      {"block",
       [](const Question& question, int size) {
         return fixed_policy(question.chain,
                             [size](int first, int last) { return block(first, last, size); });
       },
       true},
  };
  return kPolicies;
}

const NamedPolicy* find(const std::string& name) {
  for (const NamedPolicy& one : policies())
    if (one.name == name || (one.has_size && one.name == head_of(name))) return &one;
  return nullptr;
}

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
