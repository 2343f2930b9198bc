#include <xmmintrin.h>
void set(unsigned v){_mm_setcsr(v);}
