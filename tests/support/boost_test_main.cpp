// The main function of every test that does not bring its own; see tests/CMakeLists.txt.
#define BOOST_TEST_MODULE weir
#include <boost/test/tree/traverse.hpp>
#include <boost/test/tree/visitor.hpp>
#include <boost/test/unit_test.hpp>
#include <stdexcept>

namespace {

namespace ut = boost::unit_test;

/// ctest runs suites by name: a case outside every suite would never run.
struct suite_check : ut::test_tree_visitor {
  suite_check() { ut::traverse_test_tree(ut::framework::master_test_suite(), *this, true); }

  void visit(const ut::test_case& c) override {
    if (c.p_parent_id == ut::framework::master_test_suite().p_id) {
      throw std::logic_error("a test case outside every suite: " + c.p_name.get());
    }
  }
};

BOOST_TEST_GLOBAL_CONFIGURATION(suite_check);

}  // namespace
