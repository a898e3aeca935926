// The table of one instruction set.
#include "kernels.hpp"

#define SILOT_JOIN2(a, b) a##b
#define SILOT_JOIN(a, b) SILOT_JOIN2(a, b)
#define SILOT_TEXT2(a) #a
#define SILOT_TEXT(a) SILOT_TEXT2(a)

namespace silot {
namespace SILOT_SET {

Effort assign(Int, const double*, Int, double*, double*, Int*);
Effort assign_mixed(Int, const double*, double*, double*, Int*);
bool assign_listed(Int, const double*, Int, double*, double*, Int*, Effort*);
bool settle(Int, const double*, double*, double*, const Int*);
void near_potentials(Int, Int, const double*, const Mass*, const Mass*, double*, double*);
Int transport(Int, Int, const double*, const Mass*, const Mass*, bool, double*, double*, Cell*);
double sweep_double(Int, Int, const double*, const double*, const double*, double, double, bool,
                    bool, double*, double*);
double sweep_single(Int, Int, const float*, const double*, const double*, double, double, bool,
                    bool, double*, double*);
void labels(std::int64_t, Int, const double*, const double*, double*, double*);
void clouds(std::int64_t, Int, Int, const double*, const double*, double*);
void least_costs(Int, Int, Int, Int, const double*, const double*, const double*, Int, double*);
Listed* listed(Int, Int, Int, Int, Int, const double*, const double*, const double*, const Mass*,
               const Mass*, const double*);

}  // namespace SILOT_SET

const Kernels& SILOT_JOIN(kernels_, SILOT_SET)() {
    static const Kernels table{SILOT_TEXT(SILOT_SET), SILOT_SET::assign,
                               SILOT_SET::assign_mixed, SILOT_SET::assign_listed,
                               SILOT_SET::settle, SILOT_SET::near_potentials,
                               SILOT_SET::transport, SILOT_SET::sweep_double,
                               SILOT_SET::sweep_single, SILOT_SET::labels, SILOT_SET::clouds,
                               SILOT_SET::least_costs, SILOT_SET::listed};
    return table;
}

}  // namespace silot
