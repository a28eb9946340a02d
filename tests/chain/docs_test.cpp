// The tables of docs/platforms.md have the keys that platforms and chains are read with.
// SPDX-License-Identifier: Apache-2.0
#include "support/input_error.h"

#include "trireme/chain/chain.h"
#include "trireme/chain/platform.h"
#include "trireme/core/text.h"
#include "trireme/io/file.h"
#include "trireme/io/node.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <string>

namespace trireme::chain {
namespace {

using Keys = std::set<std::string>;

/// The keys in the first cells of the tables whose head begins with one of `heads`, under a
/// heading.
Keys keys_on_page(const std::string& heading, const std::set<std::string>& heads) {
  Keys keys;
  bool is_there = false, is_table = false;
  for (const std::string& line :
       split(io::read_file(TRIREME_SOURCE_DIR "/docs/platforms.md"), '\n')) {
    if (line.starts_with("#")) is_there = line == heading;
    if (!line.starts_with("| ")) continue;
    const std::string cell = split(line, '|').at(1);
    if (!line.starts_with("| `")) is_table = heads.contains(cell);
    if (!is_there || !is_table || !line.starts_with("| `")) continue;
    const std::vector<std::string> parts = split(cell, '`');
    for (std::size_t i = 1; i < parts.size(); i += 2) keys.insert(parts[i]);
  }
  return keys;
}

/// What the error of an unknown key names: "... (known: a, b)".
Keys known_keys(const std::function<void()>& read) {
  const std::string error = support::input_error(read);
  const std::size_t begin = error.find("(known: ") + 8;
  Keys keys;
  for (std::string key : split(error.substr(begin, error.rfind(')') - begin), ','))
    keys.insert(key.starts_with(" ") ? key.substr(1) : key);
  return keys;
}

Keys keys_of_platform(const std::string& text) {
  return known_keys([&] { read_platform(io::parse(text, "p.yaml")); });
}

Keys keys_of_chain(const std::string& text) {
  return known_keys([&] { read_chain(io::parse(text, "c.yaml")); });
}

TEST(PlatformPage, HasTheKeysOfPlatforms) {
  const std::string head = "format: trireme-platform/1\nranks: [{memory_bytes: 1}]\n";
  EXPECT_EQ(keys_on_page("## Platform", {" key "}), keys_of_platform(head + "unknown: 1\n"));
  EXPECT_EQ(keys_on_page("## Platform", {" key of `links` "}),
            keys_of_platform(head + "links: {bytes_per_s: 1, unknown: 1}\n"));
}

TEST(PlatformPage, HasTheKeysOfRanks) {
  EXPECT_EQ(
      keys_on_page("## Rank", {" key "}),
      keys_of_platform("format: trireme-platform/1\nranks: [{memory_bytes: 1, unknown: 1}]\n"));
}

TEST(PlatformPage, HasTheKeysOfChains) {
  const std::string layer =
      "{forward_s: 1, backward_s: 1, output_bytes: 1, tape_bytes: 1, forward_transient_bytes: 0, "
      "tape_transient_bytes: 0, backward_transient_bytes: 0, parameter_bytes: 0, "
      "gradient_bytes: 0, optimizer_bytes: 0, name: one";
  const std::string head = "format: trireme-chain/1\nname: some\ninput_bytes: 1\n";
  EXPECT_EQ(keys_on_page("## Chain", {" key "}),
            keys_of_chain(head + "unknown: 1\nlayers: [" + layer + "}]\n"));
  EXPECT_EQ(keys_on_page("## Chain", {" key of a layer "}),
            keys_of_chain(head + "layers: [" + layer + ", unknown: 1}]\n"));
}

}  // namespace
}  // namespace trireme::chain
