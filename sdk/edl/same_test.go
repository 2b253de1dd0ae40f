// SPDX-License-Identifier: Apache-2.0

package edl

import "reflect"

// same compares trees without the places of their nodes.
func same(a, b *File) bool {
	return reflect.DeepEqual(placeless(reflect.ValueOf(a)).Interface(), placeless(reflect.ValueOf(b)).Interface())
}

func placeless(v reflect.Value) reflect.Value {
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return v
		}
		n := reflect.New(v.Type().Elem())
		n.Elem().Set(placeless(v.Elem()))
		return n
	case reflect.Interface:
		n := reflect.New(v.Type()).Elem()
		n.Set(placeless(v.Elem()))
		return n
	case reflect.Slice:
		if v.IsNil() {
			return v
		}
		n := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		for i := range v.Len() {
			n.Index(i).Set(placeless(v.Index(i)))
		}
		return n
	case reflect.Struct:
		n := reflect.New(v.Type()).Elem()
		if v.Type() == reflect.TypeOf(Pos{}) {
			return n
		}
		for i := range v.NumField() {
			n.Field(i).Set(placeless(v.Field(i)))
		}
		return n
	}
	return v
}
