// The tables of keys in docs/, compared with the keys that a job has.
// SPDX-License-Identifier: Apache-2.0
#include "config/read.h"

#include "trireme/core/text.h"
#include "trireme/io/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

namespace trireme::config {
namespace {

using Defaults = std::map<std::string, std::string>;  // by key, as the docs write it
using Tables = std::map<std::string, Defaults>;       // by heading

std::string trimmed(std::string text) {
  const auto begin = text.find_first_not_of(" \n");
  return begin == std::string::npos ? ""
                                    : text.substr(begin, text.find_last_not_of(" \n") - begin + 1);
}

/// Headings by their first words ("## train.optimizer", "## gpt (Radford et al. 2019)").
Tables tables_of(const std::string& page) {
  Tables tables;
  std::string heading;
  for (const std::string& line : split(io::read_file(page), '\n')) {
    if (line.starts_with("#")) heading = split(line.substr(line.find(' ') + 1), ' ').front();
    if (!line.starts_with("| `")) continue;
    const std::vector<std::string> cells = split(line, '|');
    tables[heading][trimmed(cells.at(1))] = trimmed(cells.at(2));
  }
  return tables;
}

/// Keys whose default is described in words: it differs from job to job.
const std::set<std::string> kInWords{"name", "data.kind", "data.files", "memory.disk_path",
                                     "report.directory"};

std::string value_of(const io::Node& node) {
  return node.kind() == io::Node::Kind::kScalar ? node.text() : trimmed(node.to_yaml());
}

void expect_defaults(const io::Node& section, const std::string& heading, const Tables& tables) {
  const auto table = tables.find(heading);
  ASSERT_NE(table, tables.end()) << "no table under " << heading;
  for (const auto& [key, node] : section.entries()) {
    if (node.kind() == io::Node::Kind::kMap) {
      if (key != "model") expect_defaults(node, node.key(), tables);
      continue;
    }
    const auto row = table->second.find("`" + key + "`");
    if (row == table->second.end()) {
      ADD_FAILURE() << "nothing on " << node.key();
    } else if (!kInWords.contains(node.key())) {
      EXPECT_EQ(row->second, value_of(node)) << node.key();
    }
  }
}

io::Node resolved(const std::string& text) {
  return io::parse(to_yaml(read(text)), "a.yaml");
}

TEST(Docs, HaveEveryKeyOfAJobWithItsDefault) {
  const Tables tables = tables_of(TRIREME_SOURCE_DIR "/docs/job.md");
  for (const std::string kind : {"text", "tokens", "documents"})
    expect_defaults(resolved("model: {kind: gpt}\ndata: {kind: " + kind + ", files: [x]}\n"),
                    "Every", tables);
  expect_defaults(resolved("model: {kind: mlp}\n"), "Every", tables);
  const io::Node other =
      resolved("model: {kind: mlp}\ntrain: {optimizer: {kind: sgd}, schedule: {kind: constant}}\n");
  EXPECT_TRUE(other.find("train")->find("optimizer")->find("momentum"));
  EXPECT_EQ(tables.at("train.optimizer").at("`momentum`"),
            other.find("train")->find("optimizer")->find("momentum")->text());
}

}  // namespace
}  // namespace trireme::config
