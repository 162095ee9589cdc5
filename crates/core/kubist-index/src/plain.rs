//! The size of values without dictionary or view encoding. A dictionary or view may repeat one large value in a hundred
//! thousand rows, so code that decodes such a column checks this size first, and works in parts that fit into memory.

use arrow_array::cast::AsArray;
use arrow_array::types::{BinaryViewType, ByteViewType, StringViewType};
use arrow_array::{Array, GenericByteViewArray};
use arrow_schema::DataType;

pub fn bytes(array: &dyn Array) -> usize {
    match array.data_type() {
        DataType::Dictionary(_, _) => {
            let dictionary = array.as_any_dictionary();
            let values = dictionary.values();
            if values.is_empty() {
                return array.len();
            }
            let length = length_of(values.as_ref());
            // A null row has an arbitrary key, which at most overestimates the size.
            dictionary.normalized_keys().into_iter().map(length).fold(0, usize::saturating_add)
        }
        DataType::Utf8View => views(array.as_byte_view::<StringViewType>()),
        DataType::BinaryView => views(array.as_byte_view::<BinaryViewType>()),
        // It becomes a column of empty strings.
        DataType::Null => array.len().saturating_mul(size_of::<i32>()),
        _ => array.to_data().get_slice_memory_size().unwrap_or(usize::MAX),
    }
}

fn views<T: ByteViewType + ?Sized>(array: &GenericByteViewArray<T>) -> usize {
    array.lengths().map(|length| length as usize + size_of::<i64>()).fold(0, usize::saturating_add)
}

fn length_of(values: &dyn Array) -> Box<dyn Fn(usize) -> usize + '_> {
    match values.data_type() {
        DataType::Utf8 => text(values.as_string::<i32>().value_offsets()),
        DataType::LargeUtf8 => text(values.as_string::<i64>().value_offsets()),
        DataType::Binary => text(values.as_binary::<i32>().value_offsets()),
        DataType::LargeBinary => text(values.as_binary::<i64>().value_offsets()),
        other => {
            // For a type without a width, the whole array: columns do not allow such dictionaries.
            let width = other.primitive_width().unwrap_or_else(|| bytes(values));
            Box::new(move |_| width)
        }
    }
}

fn text<T: arrow_array::OffsetSizeTrait>(offsets: &[T]) -> Box<dyn Fn(usize) -> usize + '_> {
    Box::new(|row| offsets[row + 1].as_usize() - offsets[row].as_usize() + size_of::<T>())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow_array::types::Int32Type;
    use arrow_array::{DictionaryArray, Int32Array, NullArray, StringArray, StringViewArray};

    use super::*;

    #[test]
    fn a_value_counts_as_often_as_it_is_named() {
        let long = "x".repeat(1000);
        let values = Arc::new(StringArray::from(vec!["a", &long]));
        let keys = |keys: Vec<Option<i32>>| DictionaryArray::<Int32Type>::new(Int32Array::from(keys), values.clone());
        assert_eq!(bytes(&keys(vec![Some(0), Some(0)])), 2 * 5);
        assert_eq!(bytes(&keys(vec![Some(1); 50])), 50 * 1004);
        assert!(bytes(&keys(vec![None, Some(1)])) >= 1004);
        let view = StringViewArray::from(vec![Some(long.as_str()), None]);
        assert!((1000..1100).contains(&bytes(&view)));
        let numbers = Int32Array::from_iter_values(0..100);
        assert_eq!(bytes(&numbers), 400);
        assert_eq!(bytes(&numbers.slice(10, 5)), 20);
        assert_eq!(bytes(&NullArray::new(7)), 28);
        let nothing = StringArray::new_null(0);
        let empty = DictionaryArray::<Int32Type>::new(Int32Array::from(vec![None, None]), Arc::new(nothing));
        assert_eq!(bytes(&empty), 2);
    }
}
