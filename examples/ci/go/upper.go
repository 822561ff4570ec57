// SPDX-License-Identifier: Apache-2.0

// Package upper calls C. heapgauge sees what C allocates; Go's own heap has Go's own profiler.
package upper

/*
#include <ctype.h>
#include <stdlib.h>

static void upper(char *text)
{
	for (; *text; text++)
		*text = (char)toupper((unsigned char)*text);
}
*/
import "C"
import "unsafe"

// Upper returns the text in capital letters.
func Upper(text string) string {
	c := C.CString(text)
	defer C.free(unsafe.Pointer(c))
	C.upper(c)
	return C.GoString(c)
}
