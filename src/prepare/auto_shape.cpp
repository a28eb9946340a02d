// SPDX-License-Identifier: Apache-2.0
#include "trireme/prepare/auto_shape.h"

#include "measured_links.h"
#include "question.h"
#include "sized_chains.h"

#include "trireme/comm/heartbeat.h"
#include "trireme/core/text.h"
#include "trireme/partition/shape.h"
#include "trireme/plan/plan.h"
#include "trireme/prepare/job_platform.h"
#include "trireme/profile/tied_weights.h"
#include "trireme/ranks/host.h"
#include "trireme/ranks/signals.h"
#include "trireme/runtime/links.h"

#include <algorithm>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <utility>

namespace trireme::prepare {
namespace {

/// Share of the host's memory for ranks without a budget; the rest is for everything but tensors.
constexpr double kShareOfHost = 0.8;

/// A shape, the tapes with which it was chosen, and why none fits, if so; on rank 0 also its plan,
/// where it was planned thoroughly.
struct Choice {
  partition::Shape shape;
  bool lean_tapes = false;
  std::optional<plan::Infeasible> infeasible = {};
  std::optional<plan::Plan> plan = {};
};

/// The question as the job poses it.
partition::ShapeQuestion question_of(const config::JobSpec& job, const ranks::RankContext& context,
                                     int ranks);
/// Adds what the job does not say: memory where there are no budgets, bytes that stages share, and
/// the speed of sums over replicas.
void add_figures(const config::JobSpec& job, const model::ChainModel& model,
                 const ranks::RankContext& context, partition::ShapeQuestion& question);
/// Chooses a shape and measures its micro-batch size, until the chosen one was measured before.
Choice fastest(partition::ShapeQuestion& question, const std::vector<int>& sizes,
               SizedChains& chains, const ranks::RankContext& context, std::ostream& out);
/// The choice with these tapes, full or lean; for auto, with lean ones where full ones do not fit.
/// If neither fit, the one that lacks less.
Choice with_tapes_that_fit(const std::string& tapes,
                           const std::function<Choice(bool lean_tapes)>& fastest);
/// Rank 0's share of its host, or what tensors can have of its GPU; the same on every rank.
Bytes room_of_a_rank(const ranks::RankContext& context);
Choice chosen_of(const partition::ShapeAnswer& answer);
/// Broadcasts rank 0's choice to every rank.
Choice agreed(comm::Channel& channel, const Choice& mine);
std::vector<int> sizes_of(const std::vector<partition::Shape>& shapes);
std::string words_for(const partition::Shape& shape);

}  // namespace

std::variant<SettledJob, Misfit> with_shape(const config::JobSpec& job,
                                            const model::ChainModel& model,
                                            const ranks::RankContext& context, int ranks,
                                            std::ostream& out) {
  SettledJob settled{.job = job};
  if (model.has_batch_norm) config::require_micro_batch(job);
  if (!config::has_open_shape(job)) return settled;
  require_solver(job);
  goal_of(job);
  partition::ShapeQuestion question = question_of(job, context, ranks);
  const std::vector<partition::Shape> shapes = partition::shapes_of(question);
  partition::Shape shape = shapes.front();
  if (shapes.size() > 1) {
    add_figures(job, model, context, question);
    const auto fastest_with = [&](bool lean_tapes) {
      SizedChains chains(job, model, lean_tapes, context, out);
      Choice choice = fastest(question, sizes_of(shapes), chains, context, out);
      choice.lean_tapes = lean_tapes;
      return choice;
    };
    Choice choice = with_tapes_that_fit(job.memory.tapes, fastest_with);
    if (choice.infeasible) return Misfit{*std::move(choice.infeasible)};
    shape = choice.shape;
    settled.known.costs = Preparation::Costs::kAlways;
    settled.known.plan = std::move(choice.plan);
    // Which tapes are faster at that shape is decided when it is planned.
    if (choice.lean_tapes) settled.known.lean_tapes = true;
  }
  if (context.channel.rank() == 0)
    out << "shape: " << words_for(shape)
        << (shapes.size() > 1 ? ", of the fastest plan found\n" : ", the only one possible\n");
  settled.job.pipeline.stages = shape.stages;
  settled.job.pipeline.replicas = shape.replicas;
  settled.job.train.micro_batch = shape.micro_batch;
  return settled;
}

namespace {

partition::ShapeQuestion question_of(const config::JobSpec& job, const ranks::RankContext& context,
                                     int ranks) {
  partition::ShapeQuestion question;
  question.ranks = ranks;
  question.batch = job.train.batch;
  question.stages = job.pipeline.stages;
  question.replicas = job.pipeline.replicas;
  question.micro_batch = job.train.micro_batch;
  take_options(job, question.common);
  question.common.platform = job_platform(job, context, ranks, /*replicas=*/1);
  question.common.cut = job.pipeline.cut;
  if (job.pipeline.cut) question.stages = static_cast<int>(job.pipeline.cut->size()) + 1;
  question.shard_optimizer = job.memory.shard_optimizer;
  question.weights = job.memory.weights;
  return question;
}

void add_figures(const config::JobSpec& job, const model::ChainModel& model,
                 const ranks::RankContext& context, partition::ShapeQuestion& question) {
  question.common.shared_bytes =
      [tied = profile::TiedWeights(model, job.train)](const partition::LayerRuns& runs) {
        return tied.shared(runs);
      };
  if (question.common.platform.ranks.front().memory == Bytes(0)) {
    const Bytes room = room_of_a_rank(context);
    for (chain::RankSpec& rank : question.common.platform.ranks) rank.memory = room;
    if (question.common.solver == "auto") question.common.solver = "keep_all";
  }
  if (context.channel.size() > 1 && !job.pipeline.replicas) {
    const std::vector<int> all = comm::everyone(context.channel);
    context.device.connect(runtime::replica_links(all));
    question.common.platform.default_link.rate = measured_sum(context, all).rate;
  }
}

Choice fastest(partition::ShapeQuestion& question, const std::vector<int>& sizes,
               SizedChains& chains, const ranks::RankContext& context, std::ostream& out) {
  const bool speaks = context.channel.rank() == 0;
  Bytes most;
  for (const chain::RankSpec& rank : question.common.platform.ranks)
    most = std::max(most, rank.memory);
  chains.measure_ends(sizes, most);
  question.chain_at = [&chains](int size) { return chains.at(size); };
  set_speeds(question.common.platform, chains.speeds(), /*replicas=*/1);
  for (;;) {
    partition::ShapeAnswer answer;
    const auto choose = [&] {
      if (!speaks) return;
      const ranks::StopsAtOnce nothing_to_save("a plan is made");
      out << "choosing stages, replicas and micro-batches ..." << std::endl;
      answer = partition::choose_shape(question);
    };
    comm::run_with_heartbeat(context.channel, choose, "choice of stages and replicas");
    Choice choice = agreed(context.channel, speaks ? chosen_of(answer) : Choice{});
    if (!chains.is_measured(choice.shape.micro_batch)) {
      chains.measure(choice.shape.micro_batch);
      continue;
    }
    if (speaks)
      out << partition::to_text(answer) << "measured with micro-batches of " << chains.sizes_text()
          << ", others estimated\n";
    return choice;
  }
}

Choice with_tapes_that_fit(const std::string& tapes,
                           const std::function<Choice(bool lean_tapes)>& fastest) {
  if (tapes != "auto") return fastest(tapes == "lean");
  Choice full = fastest(false);
  if (!full.infeasible) return full;
  Choice lean = fastest(true);
  const bool lacks_less =
      !lean.infeasible || lean.infeasible->least_budget < full.infeasible->least_budget;
  return lacks_less ? lean : full;
}

Bytes room_of_a_rank(const ranks::RankContext& context) {
  const ranks::RankDevice& device = context.device;
  const auto of_host = static_cast<std::int64_t>(
      kShareOfHost * static_cast<double>(ranks::machine_memory().count()) / context.ranks_on_host);
  const Bytes room =
      device.place().device().is_cpu() ? Bytes(of_host) : device.plannable(device.total_memory());
  return comm::broadcast(context.channel, comm::everyone(context.channel), room,
                         "memory of rank 0's device");
}

Choice chosen_of(const partition::ShapeAnswer& answer) {
  const partition::TriedShape& tried =
      answer.tried[answer.chosen ? *answer.chosen : partition::leanest(answer)];
  Choice choice{.shape = tried.shape};
  if (!answer.chosen)
    choice.infeasible = std::get<plan::Infeasible>(*tried.answer);
  else if (!tried.is_quick)
    choice.plan = *tried.plan();
  return choice;
}

Choice agreed(comm::Channel& channel, const Choice& mine) {
  const std::vector<int> all = comm::everyone(channel);
  Choice choice = mine;
  choice.shape = comm::broadcast(channel, all, mine.shape, "shape chosen by rank 0");
  const std::string reason = comm::broadcast(
      channel, all, mine.infeasible ? plan::to_json(*mine.infeasible) : "", "why no shape fits");
  if (!reason.empty())
    choice.infeasible =
        plan::read_infeasible(io::parse(reason, "shape").find("infeasible").value());
  return choice;
}

std::vector<int> sizes_of(const std::vector<partition::Shape>& shapes) {
  std::set<int> sizes;
  for (const partition::Shape& shape : shapes) sizes.insert(shape.micro_batch);
  return {sizes.begin(), sizes.end()};
}

std::string words_for(const partition::Shape& shape) {
  return concat(count_of(shape.stages, "stage"), " x ", count_of(shape.replicas, "replica"), ", ",
                count_of(shape.micro_batches, "micro-batch"), " of ", shape.micro_batch);
}

}  // namespace
}  // namespace trireme::prepare
