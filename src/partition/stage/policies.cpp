// Table of the stage policies by name.
// SPDX-License-Identifier: Apache-2.0
#include "labels.h"
#include "stage_policy.h"
#include "values/lookup.h"

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

/// A policy that does not use a single-stage solver.
struct NamedPolicy {
  std::string_view name;
  std::unique_ptr<StagePolicy> (*make)(const Question& question, int size);
  bool has_size = false;  ///< after the name, 2 if not given
};

const std::vector<NamedPolicy>& policies() {
  static constexpr auto kFreeTables = [](const Question& question, int) {
    return table_policy(question, true);
  };
  static const std::vector<NamedPolicy> kPolicies{
      {"joint", kFreeTables},
      {"madpipe", kFreeTables},  // only places stages; their programs are joint's
      {"rotor_free", kFreeTables},
      {"rotor", [](const Question& question, int) { return table_policy(question, false); }},
      {"adapipe", [](const Question& question, int) { return per_layer_policy(question.chain); }},
      {"keep_all", [](const Question& question,
                      int) { return fixed_policy(question.chain, program::keep_all); }},
      {"recompute_all", [](const Question& question,
                           int) { return fixed_policy(question.chain, program::recompute_all); }},
      {"offload", [](const Question& question, int) { return offload_policy(question.chain); }},
      // Groups of `size` layers keep only their input and are recomputed as a whole.
      {"uniform",
       [](const Question& question, int size) {
         return fixed_policy(question.chain, [size](int first, int last) {
           std::vector<Op> labels;
           for (int i = first; i <= last; ++i)
             labels.push_back((i - first) % size == 0 ? Op::kForwardKeep : Op::kForward);
           return labelled(first, labels, {.taped = size}, {.taped = size});
         });
       },
       true},
      // The first `size` layers are recomputed one by one, the others kept.
      {"block",
       [](const Question& question, int size) {
         return fixed_policy(question.chain, [size](int first, int last) {
           std::vector<Op> labels(at(last - first + 1), Op::kForwardTape);
           std::fill_n(labels.begin(), std::min(size, last - first + 1), Op::kForwardKeep);
           return labelled(first, labels);
         });
       },
       true},
  };
  return kPolicies;
}

std::string head_of(const std::string& name) {
  return name.substr(0, name.find(' '));
}

/// nullptr for other names.
const NamedPolicy* find(const std::string& name) {
  for (const NamedPolicy& one : policies())
    if (one.name == name || (one.has_size && one.name == head_of(name))) return &one;
  return nullptr;
}

int read_size(const std::string& name) {
  const std::string head = head_of(name);
  if (name == head) return 2;
  int size = 0;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(name.data() + head.size() + 1, end, size);
  if (error != std::errc() || stop != end || size < 1)
    throw InputError(
        concat("solver '", name, "': expected a number of layers, e.g. '", head, " 4'"));
  return std::min(size, chain::kMaxLayers);
}

}  // namespace

const std::vector<std::string>& joint_solver_names() {
  static const std::vector<std::string> kNames{"joint", "madpipe", "adapipe", "uniform", "block"};
  return kNames;
}

bool is_joint(const std::string& solver) {
  const std::vector<std::string>& names = joint_solver_names();
  return std::find(names.begin(), names.end(), head_of(solver)) != names.end();
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
  if (const NamedPolicy* const own = find(name)) return own->make(question, read_size(name));
  if (!solve::traits_of(name))
    throw InputError(concat("no solver is called '", name, "'",
                            did_you_mean(head_of(name), known_solvers()), "; there are ",
                            join(known_solvers(), ", ")));
  return solver_policy(question, name);
}

}  // namespace trireme::partition
