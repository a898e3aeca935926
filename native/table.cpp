// The table of one instruction set.
#include "kernels.hpp"

#define SILOT_JOIN2(a, b) a##b
#define SILOT_JOIN(a, b) SILOT_JOIN2(a, b)
#define SILOT_TEXT2(a) #a
#define SILOT_TEXT(a) SILOT_TEXT2(a)

namespace silot {
namespace SILOT_SET {

Effort assign_double(Int, const double*, double*, double*, Int*);
Effort assign_single(Int, const float*, float*, float*, Int*);
bool settle(Int, const double*, double*, double*, const Int*);
Int ship(Int, Int, const double*, const Mass*, const Mass*, double*, double*, Cell*, Int, Effort*);
Auction* auction(Int, Int, Int, Int, Int, const double*, const double*, const double*, const Mass*,
                 const Mass*, const double*);

}  // namespace SILOT_SET

const Kernels& SILOT_JOIN(kernels_, SILOT_SET)() {
    static const Kernels table{SILOT_TEXT(SILOT_SET), SILOT_SET::assign_double,
                               SILOT_SET::assign_single, SILOT_SET::settle, SILOT_SET::ship,
                               SILOT_SET::auction};
    return table;
}

}  // namespace silot
