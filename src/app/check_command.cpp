// SPDX-License-Identifier: Apache-2.0
#include "check_command.h"

#include "exit_code.h"
#include "planned.h"

#include "trireme/chain/chain.h"
#include "trireme/chain/platform.h"
#include "trireme/config/job.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/core/visible.h"
#include "trireme/io/json.h"
#include "trireme/io/node.h"
#include "trireme/partition/planner.h"
#include "trireme/report/text.h"

#include <filesystem>
#include <iostream>
#include <string_view>

namespace trireme::app {
namespace {

/// The `format` key of the file; empty for a job.
std::string format_of(const std::string& file);
int check_job(const CheckArguments& arguments);
int check_plan(const CheckArguments& arguments);
int check_chain(const CheckArguments& arguments);
int check_platform(const CheckArguments& arguments);
/// Throws InputError where an option does not apply to this kind of file.
void refuse(bool is_given, std::string_view option, std::string_view kind);

}  // namespace

bool is_job(const std::string& file) {
  try {
    return format_of(file).empty();
  } catch (const InputError&) {
    return false;
  }
}

int check(const CheckArguments& arguments) {
  const std::string format = format_of(arguments.file);
  const bool is_plan = format.starts_with("trireme-plan/");
  if (!format.empty()) refuse(!arguments.settings.empty(), "--set", "a job");
  if (!format.empty()) refuse(arguments.resolved, "--resolved", "a job");
  if (is_plan || (format.empty() && !arguments.chain.empty())) return check_plan(arguments);
  refuse(!arguments.chain.empty(), "--chain", "a plan");
  refuse(!arguments.platform.empty(), "--platform", "a plan");
  if (format.starts_with("trireme-chain/")) return check_chain(arguments);
  if (format.starts_with("trireme-platform/")) return check_platform(arguments);
  return check_job(arguments);
}

namespace {

std::string format_of(const std::string& file) {
  std::error_code failure;
  const auto status = std::filesystem::status(file, failure);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status) &&
      !std::filesystem::is_directory(status))
    throw InputError(
        concat(file, ": is a pipe or the like, must be a file, since it is read twice"));
  const io::Node document = io::load(file);
  if (document.kind() != io::Node::Kind::kMap) return "";
  const auto format = document.find("format");
  return format && format->kind() == io::Node::Kind::kScalar ? format->text() : "";
}

int check_job(const CheckArguments& arguments) {
  const config::JobSpec job =
      config::load_job(arguments.file, {.settings = arguments.settings, .own_models = {}});
  const std::string resolved = config::to_yaml(job);
  io::Json micro_batches;  // null where they are open
  if (!config::has_open_shape(job)) micro_batches = config::micro_batches(job);
  if (arguments.json) {
    std::cout << io::one_line({{"format", "trireme-check/1"},
                               {"kind", "job"},
                               {"micro_batches", micro_batches},
                               {"job", resolved}})
              << "\n";
  } else {
    std::cout << resolved;
  }
  std::cerr << visible(arguments.file) << " was read as a job: "
            << (micro_batches.is_null()
                    ? "stages, replicas and micro-batches are chosen when it runs"
                    : io::one_line(micro_batches) + " micro-batches per step and replica")
            << "\n";
  return kDone;
}

int check_plan(const CheckArguments& arguments) {
  if (arguments.chain.empty())
    throw InputError(concat(arguments.file,
                            ": is a plan; the chain that it is for must be given "
                            "with it: --chain chain.yaml"));
  const PlanFiles files{arguments.file, arguments.chain, arguments.platform};
  const Planned planned = load_planned(files);
  const simulate::Simulation forecast = simulated(planned, simulate::Detail::kSummary);
  if (const auto infeasible = over_budget(planned, forecast))
    return report_over_budget(*infeasible, files, arguments.json);
  std::size_t actions = 0;
  for (const auto& rank : planned.program.ranks) actions += rank.size();
  std::cerr << visible(arguments.file) << " is a valid plan for " << visible(arguments.chain)
            << ": " << actions << " actions in legal order, every rank within its budget\n";
  if (arguments.platform.empty() && plan::ranks_of(planned.plan) > 1)
    std::cerr << "without --platform, messages between ranks take neither time nor memory\n";
  std::cout << (arguments.json ? report::to_json(planned.plan, forecast)
                               : report::simulation_text(planned.plan, forecast));
  return kDone;
}

int check_chain(const CheckArguments& arguments) {
  const chain::Chain chain = chain::load_chain(arguments.file);
  partition::Question alone;
  alone.chain = chain;
  alone.platform = chain::uniform_platform(1, Bytes(0));
  const Bytes fixed = partition::static_bytes(chain, 1, chain.length());
  const Bytes needed = partition::keep_all_budget(alone);
  const Seconds ideal = partition::ideal_step(alone);
  if (arguments.json) {
    std::cout << io::one_line({{"format", "trireme-check/1"},
                               {"kind", "chain"},
                               {"layers", chain.length()},
                               {"digest", chain::digest(chain)},
                               {"ideal_s", ideal.count()},
                               {"static_bytes", fixed.count()},
                               {"keep_all_bytes", needed.count()}})
              << "\n";
  } else {
    std::cout << "layers    " << chain.length() << "\ndigest    " << chain::digest(chain)
              << "\nideal     " << to_text(ideal) << " per micro-batch\nstatic    "
              << report::exact_text(fixed) << "\nkeep_all  " << report::exact_text(needed) << "\n";
  }
  std::cerr << visible(arguments.file) << " is a valid chain\n";
  return kDone;
}

int check_platform(const CheckArguments& arguments) {
  const chain::Platform platform = chain::load_platform(arguments.file);
  if (arguments.json) {
    std::cout << io::one_line({{"format", "trireme-check/1"},
                               {"kind", "platform"},
                               {"ranks", platform.ranks.size()}})
              << "\n";
  } else {
    std::cout << chain::to_yaml(platform);
  }
  std::cerr << visible(arguments.file) << " is a valid platform of " << platform.ranks.size()
            << " ranks\n";
  return kDone;
}

void refuse(bool is_given, std::string_view option, std::string_view kind) {
  if (is_given) throw InputError(concat(option, ": is only for ", kind, ", leave it out here"));
}

}  // namespace
}  // namespace trireme::app
