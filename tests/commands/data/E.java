public class E { public static void main(String[] a) { String s = null; System.out.println(s.length()); } }
