// SPDX-License-Identifier: Apache-2.0
#include "trireme/prepare/measured_chain.h"

#include "question.h"
#include "two_digits.h"

#include "trireme/chain/cost_fields.h"
#include "trireme/comm/heartbeat.h"
#include "trireme/core/error.h"
#include "trireme/core/text.h"
#include "trireme/core/visible.h"
#include "trireme/io/folder.h"
#include "trireme/profile/stored.h"
#include "trireme/profile/text.h"
#include "trireme/ranks/rank_kinds.h"
#include "trireme/ranks/signals.h"

#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>

namespace trireme::prepare {
namespace {

/// Finds or measures the chains of all kinds of ranks.
class ChainsOfKinds {
 public:
  ChainsOfKinds(const config::JobSpec& job, const ranks::RankContext& context, std::ostream& out);

  /// Collective: loads stored chains; whether all were found.
  bool find_stored(const model::ChainModel& model);
  /// Collective: measures the others.
  void measure(const model::ChainModel& model);
  /// Whether rank 0's chain is known, with joules.
  bool have_joules() const { return chains_.front() && profile::has_joules(*chains_.front()); }
  MeasuredChain result() const;

 private:
  /// This rank's share as text; empty where it does not measure.
  std::string measured_share(const model::ChainModel& model);
  void keep(std::size_t kind, const std::string& code) const;
  void say(const profile::Stored& stored, const std::string& how) const;
  void say_speeds(const std::vector<double>& of_kinds) const;
  bool speaks() const { return context_.channel.rank() == 0; }

  const config::JobSpec& job_;
  const ranks::RankContext& context_;
  std::ostream& out_;
  const std::vector<int> all_;
  const ranks::RankKinds kinds_;
  std::vector<std::optional<chain::Chain>> chains_;  ///< of the kinds whose costs are needed
  std::vector<std::string> notes_;                   ///< on what this rank has measured
};

/// One chain of all ranks' shares, which timed different layers.
chain::Chain sum_of(const std::vector<std::string>& shares);
/// Time of one forward and backward of all layers.
Seconds passes_of(const chain::Chain& chain);

}  // namespace

std::filesystem::path profiles_folder(const config::JobSpec& job) {
  return io::plain_name(job.report.directory, "report.directory").parent_path() / ".profiles";
}

profile::MeasureOptions measure_options(const ranks::RankContext& context, std::ostream& notes) {
  const device::Place& place = context.device.place();
  profile::MeasureOptions options{
      .threads = context.threads,
      .stop_requested = ranks::stop_requested,
      .place = place,
      .memory = place.device().is_cpu() ? nullptr : &context.device.memory()};
  if (context.channel.rank() == 0)
    options.note = [&notes](const std::string& note) { notes << "note: " << note << std::endl; };
  return options;
}

MeasuredChain measured_chain(const config::JobSpec& job, const model::ChainModel& model,
                             bool lean_tapes, const ranks::RankContext& context,
                             std::ostream& out) {
  config::JobSpec measured = job;
  measured.memory.tapes = lean_tapes ? "lean" : "full";
  ChainsOfKinds chains(measured, context, out);
  const bool is_earlier = chains.find_stored(model);
  if (needs_joules(job) && !chains.have_joules())
    job.fail("plan.objective",
             "is energy, but nothing says what energy costs: give the watts of a rank while it "
             "computes and while it waits, energy: {busy_w: 700, idle_w: 100} for example, or "
             "measure the layers where a meter can be read, by trireme profile (docs/energy.md)");
  if (!is_earlier) chains.measure(model);
  MeasuredChain result = chains.result();
  result.is_earlier = is_earlier;
  return result;
}

namespace {

ChainsOfKinds::ChainsOfKinds(const config::JobSpec& job, const ranks::RankContext& context,
                             std::ostream& out)
    : job_(job),
      context_(context),
      out_(out),
      all_(comm::everyone(context.channel)),
      kinds_(ranks::rank_kinds(job, context)),
      chains_(job.pipeline.speeds ? 1 : kinds_.machines.size()) {}

bool ChainsOfKinds::find_stored(const model::ChainModel& model) {
  std::vector<std::string> known(chains_.size());
  const auto look = [&] {
    for (std::size_t kind = 0; speaks() && kind < known.size(); ++kind) {
      const profile::Found found =
          profile::find_stored(job_, kinds_.machines[kind], model, profiles_folder(job_));
      if (!found.refused.empty()) out_ << "note: " << visible(found.refused) << "\n";
      if (!found.stored) continue;
      known[kind] = chain::to_yaml(found.stored->chain);
      say(*found.stored, "measured earlier");
      // Layers are the same for every kind of rank.
      if (kind == 0)
        for (const std::string& each : found.stored->notes) out_ << "note: " << each << "\n";
    }
  };
  comm::run_with_heartbeat(context_.channel, look, "look for stored profiles");
  for (std::size_t kind = 0; kind < known.size(); ++kind) {
    const std::string of_rank_0 =
        comm::broadcast(context_.channel, all_, known[kind], "stored profile of rank 0");
    if (!of_rank_0.empty()) chains_[kind] = chain::read_chain(io::parse(of_rank_0, "chain"));
  }
  return std::all_of(chains_.begin(), chains_.end(),
                     [](const auto& chain) { return chain.has_value(); });
}

void ChainsOfKinds::measure(const model::ChainModel& model) {
  if (speaks()) out_ << "profile: measuring the layers ..." << std::endl;
  std::string mine;
  comm::run_with_heartbeat(
      context_.channel, [&] { mine = measured_share(model); }, "profiling");
  const std::vector<std::string> shares =
      comm::all_gather(context_.channel, all_, mine, "profiles of all ranks");
  const auto sum_up = [&] {
    for (std::size_t kind = 0; kind < chains_.size(); ++kind) {
      if (chains_[kind]) continue;
      std::vector<std::string> of_kind;
      for (const int rank : kinds_.ranks_of(static_cast<int>(kind)))
        of_kind.push_back(shares[static_cast<std::size_t>(rank)]);
      chains_[kind] = sum_of(of_kind);
      if (speaks()) keep(kind, model.code);
    }
  };
  comm::run_with_heartbeat(context_.channel, sum_up, "storing of profiles");
}

std::string ChainsOfKinds::measured_share(const model::ChainModel& model) {
  const int rank = context_.channel.rank();
  const int kind = kinds_.of_rank[static_cast<std::size_t>(rank)];
  const std::vector<int> alike = kinds_.ranks_of(kind);
  const bool is_shared = context_.device.measures_beside_others();
  const bool is_asked = std::cmp_less(kind, chains_.size()) &&
                        !chains_[static_cast<std::size_t>(kind)] &&
                        (is_shared || rank == alike.front());
  if (!is_asked) return {};
  profile::MeasureOptions options = measure_options(context_, out_);
  if (is_shared) {
    options.share = static_cast<int>(std::find(alike.begin(), alike.end(), rank) - alike.begin());
    options.shares = static_cast<int>(alike.size());
  }
  options.note = [this, say = options.note](const std::string& text) {
    notes_.push_back(text);
    if (say) say(text);
  };
  const ranks::StopsAtOnce nothing_to_save("layers are measured");
  return chain::to_yaml(profile::measure(model, job_, options));
}

void ChainsOfKinds::keep(std::size_t kind, const std::string& code) const {
  const std::size_t ranks =
      context_.device.measures_beside_others() ? kinds_.ranks_of(static_cast<int>(kind)).size() : 1;
  const std::string how = concat("measured on ", count_of(ranks, "rank"));
  try {
    const std::string known = profile::dependencies(job_, code, kinds_.machines[kind]);
    say(profile::store(*chains_[kind], notes_, known, profiles_folder(job_)), how);
  } catch (const Error& error) {
    out_ << "profile: " << how << ", and will be again: " << shown_words(error) << "\n";
  }
}

void ChainsOfKinds::say(const profile::Stored& stored, const std::string& how) const {
  out_ << "profile: " << stored.chain.length() << " layers, " << how << " ("
       << visible(stored.file.string()) << ")\n";
}

MeasuredChain ChainsOfKinds::result() const {
  MeasuredChain result{.chain = *chains_.front(), .speeds = {}, .is_earlier = false};
  if (const auto& told = job_.pipeline.speeds) {
    for (const double speed : *told) result.speeds.push_back(speed / told->front());
    return result;
  }
  std::vector<double> of_kinds;
  for (const auto& chain : chains_)
    of_kinds.push_back(two_digits(passes_of(result.chain) / passes_of(*chain)));
  for (const int kind : kinds_.of_rank)
    result.speeds.push_back(of_kinds[static_cast<std::size_t>(kind)]);
  if (speaks()) say_speeds(of_kinds);
  return result;
}

void ChainsOfKinds::say_speeds(const std::vector<double>& of_kinds) const {
  for (std::size_t kind = 1; kind < of_kinds.size(); ++kind) {
    const std::vector<int> ranks = kinds_.ranks_of(static_cast<int>(kind));
    std::vector<std::string> numbers;
    for (const int rank : ranks) numbers.push_back(std::to_string(rank));
    out_ << "speed: rank" << (ranks.size() == 1 ? " " : "s ") << enumerated(numbers) << " ("
         << kinds_.machines[kind] << ") " << to_text(of_kinds[kind]) << " of rank 0's ("
         << kinds_.machines.front() << ")\n";
  }
}

chain::Chain sum_of(const std::vector<std::string>& shares) {
  std::optional<chain::Chain> sum;
  for (const auto& share : shares) {
    if (share.empty()) continue;  // that rank measured nothing
    const chain::Chain chain = chain::read_chain(io::parse(share, "chain"));
    if (!sum) {
      sum = chain;
      continue;
    }
    for (std::size_t i = 0; i < chain.layers.size(); ++i) {
      // Each layer was timed by one rank; its bytes were measured by every rank.
      chain::walk(
          [](const chain::CostField&, auto& all, const auto& one) {
            if constexpr (std::is_same_v<decltype(all), Seconds&>) all += one;
          },
          sum->layers[i], chain.layers[i]);
    }
  }
  return *sum;
}

Seconds passes_of(const chain::Chain& chain) {
  Seconds sum{0};
  for (const chain::LayerCost& layer : chain.layers) sum += layer.forward + layer.backward;
  return sum;
}

}  // namespace
}  // namespace trireme::prepare
