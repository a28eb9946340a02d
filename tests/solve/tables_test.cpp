// Slot tables: against exact step functions, against cut-out chains, with any number of threads;
// programs rebuilt from them, run where they belong.
//
// SPDX-License-Identifier: Apache-2.0
#include "trireme/solve/tables.h"

#include "solve/chains.h"
#include "solve/table_times.h"

#include "trireme/core/error.h"
#include "trireme/simulate/ledger.h"
#include "trireme/simulate/replay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

namespace trireme::solve {
namespace {

using program::Action;
using program::Op;

Tables tables_of(const chain::Chain& chain, int top, Freedom freedom = Freedom::kInputMayLeave,
                 int threads = 1) {
  return Tables(chain, 1, chain.length(),
                {.freedom = freedom, .unit = Bytes(1), .top = top, .threads = threads});
}

chain::Chain cut_out(const chain::Chain& chain, int first, int last) {
  chain::Chain part{.name = "part", .input = chain.output(first - 1), .layers = {}};
  for (int i = first; i <= last; ++i) part.layers.push_back(chain.layer(i));
  return part;
}

// A few layers repeated, with other layers before and after.
chain::Chain blocks(std::mt19937& random, int period, int times) {
  const Shape shape{.most_layers = 5};
  chain::Chain chain = random_chain(random, shape, 2);
  const chain::Chain block = random_chain(random, shape, period);
  for (int k = 0; k < times; ++k) {
    chain.layers.insert(chain.layers.end(), block.layers.begin(), block.layers.end());
  }
  const chain::Chain tail = random_chain(random, shape, 2);
  chain.layers.insert(chain.layers.end(), tail.layers.begin(), tail.layers.end());
  return chain;
}

// Runs actions where x[s-1] and `there` are held; returns the most bytes next to x[s-1] and the
// time.
struct Ran {
  Bytes peak;
  double time = 0;
};
Ran run(const chain::Chain& chain, int s, const std::vector<Action>& there,
        const std::vector<Action>& actions) {
  simulate::Ledger ledger(chain, {});
  const auto apply = [&](const Action& action) {
    const auto outcome = ledger.apply(action);
    EXPECT_FALSE(outcome.fault) << program::to_text(action) << ": " << *outcome.fault;
    return outcome.effect.during;
  };
  apply({Op::kLoadTarget, chain.length()});
  for (const Action& action : there) apply(action);
  Ran result{.peak = ledger.held() - chain.output(s - 1)};
  for (const Action& action : actions) {
    result.peak = std::max(result.peak, apply(action) - chain.output(s - 1));
    const chain::LayerCost& layer = chain.layer(action.layer);
    if (action.op == Op::kBackward) {
      result.time += layer.backward.count();
    } else if (action.op != Op::kDrop) {
      result.time += layer.forward.count();
    }
  }
  for (const simulate::Value& value : ledger.values()) {
    if (value.kind == simulate::Value::Kind::kTarget) continue;
    EXPECT_EQ(value.kind, simulate::Value::Kind::kGradient) << simulate::to_text(value);
    EXPECT_EQ(value.layer, s - 1);
  }
  return result;
}

TEST(Tables, AgreeWithExactStepFunctions) {
  std::mt19937 random(11);
  for (int k = 0; k < 120; ++k) {
    const chain::Chain chain =
        k % 2 == 0 ? random_chain(random, {.most_layers = 14}) : blocks(random, 1 + k % 3, 3);
    const bool free = k % 4 < 2;
    const int top = 60;
    const Tables tables =
        tables_of(chain, top, free ? Freedom::kInputMayLeave : Freedom::kInputStays);
    const FirstPass pass(tables, chain.length());
    for (int m = 0; m <= top; m += 3) {
      const Result exact =
          solve(free ? "rotor_free" : "rotor", whole(chain, m + chain.input.count(), 0));
      const double time = time_of(pass, 1, m).count();
      EXPECT_EQ(std::isfinite(time) ? time : -1, time_of(exact)) << chain::to_yaml(chain) << m;
    }
  }
}

TEST(Tables, HoldTheSameForASubChainAsForAChainCutOut) {
  std::mt19937 random(12);
  for (int k = 0; k < 12; ++k) {
    const chain::Chain chain =
        k % 2 == 0 ? random_chain(random, {}, 21) : blocks(random, 2 + k % 4, 5);
    const Tables tables = tables_of(chain, 50);
    for (int s = 1; s <= chain.length(); s += 2) {
      for (int t = s; t <= chain.length(); t += 3) {
        const chain::Chain part = cut_out(chain, s, t);
        const Tables alone = tables_of(part, 50);
        ASSERT_EQ(least_of(alone, 1, part.length()), least_of(tables, s, t));
        for (int m = 0; m <= 50; m += 5) {
          ASSERT_EQ(time_of(alone, 1, part.length(), m), time_of(tables, s, t, m)) << s << ' ' << t;
          ASSERT_EQ(time_resumed(alone, 1, part.length(), m), time_resumed(tables, s, t, m));
        }
      }
    }
  }
}

TEST(Tables, DoNotDependOnTheNumberOfThreads) {
  std::mt19937 random(13);
  const chain::Chain chain = random_chain(random, {.most_time = 1000}, 75);
  const Tables one = tables_of(chain, 120), three = tables_of(chain, 120, one.freedom(), 3);
  for (int s = 1; s <= 75; ++s) {
    for (int t = s; t <= 75; ++t) {
      for (int m = 0; m <= 120; m += 4) {
        ASSERT_EQ(time_of(one, s, t, m), time_of(three, s, t, m)) << s << ' ' << t << ' ' << m;
        ASSERT_EQ(time_resumed(one, s, t, m), time_resumed(three, s, t, m));
      }
    }
  }
}

TEST(Tables, FallWithMemoryFromTheLeastThatFitsToNoRecomputation) {
  std::mt19937 random(14);
  const chain::Chain chain = random_chain(random, {}, 24);
  const Tables tables = tables_of(chain, 300);
  for (int s = 1; s <= 24; ++s) {
    for (int t = s; t <= 24; ++t) {
      const auto least = static_cast<int>(least_of(tables, s, t));
      EXPECT_TRUE(std::isinf(time_of(tables, s, t, least - 1).count()));
      for (int m = least + 1; m <= 300; ++m) {
        ASSERT_LE(time_of(tables, s, t, m), time_of(tables, s, t, m - 1))
            << s << ' ' << t << ' ' << m;
      }
      EXPECT_EQ(time_of(tables, s, t, 300), tables.costs().work(s, t));
      EXPECT_EQ(time_of(tables, s, t, tables.column(Recurrence::kWhole, s, t).hi),
                tables.costs().work(s, t));
    }
  }
}

TEST(Tables, GiveProgramsThatKeepTheirBytesAndTakeTheirTime) {
  std::mt19937 random(15);
  int programs = 0;
  for (int k = 0; k < 40; ++k) {
    const chain::Chain chain = random_chain(random, {}, 15);
    const Tables tables =
        tables_of(chain, 60, k % 2 == 0 ? Freedom::kInputMayLeave : Freedom::kInputStays);
    for (int s = 1; s <= 15; s += 2) {
      for (int t = s; t <= 15; t += 3) {
        for (Slots m = least_of(tables, s, t); m <= 60; m += 7) {
          const Ran ran = run(chain, s, {{Op::kReceiveInput, s - 1}, {Op::kReceiveGradient, t}},
                              rebuild(tables, {s, t}, m));
          ASSERT_LE(ran.peak, Bytes(m)) << chain::to_yaml(chain) << s << ' ' << t;
          ASSERT_EQ(ran.time, time_of(tables, s, t, m).count());
          ++programs;
        }
      }
    }
  }
  EXPECT_GT(programs, 5000);
}

// The tape of t is held, made from an x[t-1] that was dropped since.
TEST(Tables, GiveProgramsThatBringBackTheInputOfATape) {
  std::mt19937 random(16);
  int programs = 0, recomputing = 0;
  for (int k = 0; k < 40; ++k) {
    const chain::Chain chain = random_chain(random, {}, 12);
    const Tables tables = tables_of(chain, 60);
    for (int s = 1; s <= 12; s += 2) {
      for (int t = s + 1; t <= 12; t += 2) {
        for (Slots m = 0; m <= 60; m += 6) {
          if (!std::isfinite(time_resumed(tables, s, t, m).count())) continue;
          const Ran ran = run(chain, s,
                              {{Op::kReceiveInput, t - 1},
                               {Op::kForwardTape, t},
                               {Op::kDrop, t - 1},
                               {Op::kReceiveGradient, t},
                               {Op::kReceiveInput, s - 1}},
                              rebuild_resumed(tables, {s, t}, m));
          ASSERT_LE(ran.peak, Bytes(m)) << chain::to_yaml(chain) << s << ' ' << t;
          ASSERT_EQ(ran.time,
                    time_resumed(tables, s, t, m).count() + chain.layer(t).backward.count());
          ++programs;
          const Seconds once = tables.costs().work(s, t) - chain.layer(t).forward;
          recomputing += ran.time > once.count() ? 1 : 0;
        }
      }
    }
  }
  EXPECT_GT(programs, 5000);
  EXPECT_GT(recomputing, 1000);
}

// Columns are float: a value is off by at most 2 L roundings of 2^-24.
TEST(Tables, AreAsExactAsTheySay) {
  std::mt19937 random(19);
  std::uniform_real_distribution<double> time(1e-4, 3e-3);
  int recomputing = 0;
  for (int k = 0; k < 5; ++k) {
    chain::Chain chain = random_chain(random, {}, 60);
    for (chain::LayerCost& layer : chain.layers) layer.forward = Seconds(time(random));
    const Tables tables = tables_of(chain, 150);
    const FirstPass pass(tables, 60);
    for (Slots m = 30; m <= 150; m += 10) {
      const double extra = pass.extra(Recurrence::kFirst, 1, 60, m);
      if (!std::isfinite(extra)) continue;
      const simulate::Replay replay = simulate::replay(chain, rebuild_stage(pass, {1, 60}, m));
      EXPECT_NEAR(extra, replay.recompute.count(), extra * 120 / (1 << 24));
      recomputing += extra > 0 ? 1 : 0;
    }
  }
  EXPECT_GT(recomputing, 30);
}

TEST(Tables, ShareEqualSubChains) {
  std::mt19937 random(17);
  const chain::Chain repeated = blocks(random, 3, 40);
  chain::Chain different = repeated;
  for (std::size_t i = 0; i < different.layers.size(); ++i) {
    different.layers[i].forward += Seconds(1e-3 * static_cast<double>(i));
  }
  // What both hold besides columns is the same.
  EXPECT_LT(tables_of(repeated, 200).size() * 2, tables_of(different, 200).size());
}

TEST(Tables, RefuseChainsWithTooManyLayers) {
  chain::Chain chain{.name = "long", .input = Bytes(1), .layers = {}};
  chain.layers.resize(kMaxTableLayers + 1);
  EXPECT_THROW(tables_of(chain, 10), InputError);
}

}  // namespace
}  // namespace trireme::solve
