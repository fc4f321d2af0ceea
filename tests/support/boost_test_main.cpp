// The main function of every test that does not bring its own; see tests/CMakeLists.txt.
#define BOOST_TEST_MODULE weir
#include <boost/test/unit_test.hpp>
